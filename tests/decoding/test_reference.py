"""The loop against the specification written out plainly: one step after another, without rows or a cache."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import drafters
from drafters import Drafter, DraftError, DraftView
from suite.decoding.decode import Decoded, decode
from suite.decoding.noise import gumbel, step_key
from suite.decoding.policy import Policy, Prediction
from suite.decoding.rules import CommitRule, Exact, Threshold
from suite.decoding.state import MASK, Row, State, Visit, masked
from tests.toy import SIZE, VOCABULARY, Context, ToyTarget

policies = st.builds(
    Policy,
    block_size=st.just(SIZE),
    max_new_tokens=st.sampled_from([1, 6, 11]),
    rule=st.sampled_from([Exact(), Threshold(0.5), Threshold(0.9)]),
    temperature=st.sampled_from([0.0, 0.7, 1.0]),
    top_k=st.sampled_from([0, 0, 2]),
    top_p=st.sampled_from([1.0, 1.0, 0.77]),
    confidence=st.sampled_from(["tempered", "untempered"]),
    commit=st.sampled_from(["fused", "separate"]),
)
prompts = st.lists(st.integers(0, VOCABULARY - 2), max_size=9)
targets = st.builds(
    lambda **options: StrictToy(**options),
    sharpness=st.sampled_from([0.0, 1.0, 4.0, 60.0]),
    smooth=st.sampled_from([0.0, 0.8]),
    salt=st.integers(0, 50),
)


@dataclass
class StrictContext(Context):
    """`open`: the block in hand, as the last pass had it; None where a new one must begin. `rows`: not kept yet."""

    open: State | None = None
    rows: list[Row] = field(default_factory=list)


class StrictToy(ToyTarget):
    """A toy that holds the loop to its side of the bargain: which rows come, and that each pass is kept once."""

    def prefill(self, ids: Sequence[int], blocks: int = 0) -> StrictContext:
        self.context = StrictContext(super().prefill(ids, blocks).ids)
        return self.context

    def evaluate(self, context: Context, rows: Sequence[Row]) -> Tensor:
        assert isinstance(context, StrictContext)
        assert not context.rows, "the pass before was not kept"
        assert len(set(rows)) == len(rows), "equal states are one row"
        finished, state = rows[0].finished, rows[0].current
        assert all(row.finished == finished for row in rows)
        if finished:
            (block,) = finished
            assert MASK not in block, "only a finished block rides along"
            assert context.open is not None
            assert extends(block, context.open), "and it is the one in hand"
        elif context.open is not None:
            assert extends(state, context.open), "a block goes on until it is finished and handed over"
            assert state != context.open, "every pass commits"
        context.open = state or None
        context.rows = list(rows)
        if not state:
            context.pending[finished] = None
            return torch.zeros(len(rows), self.spec.block_size, self.spec.vocab_size)
        return super().evaluate(context, rows)

    def keep(self, context: Context, row: Row) -> None:
        assert isinstance(context, StrictContext)
        assert row in context.rows, "only a row of the last pass is kept"
        context.rows = []
        super().keep(context, row)


def extends(state: State, earlier: State) -> bool:
    return len(state) == len(earlier) and all(old in (MASK, new) for old, new in zip(earlier, state, strict=True))


def plain_step(logits: Tensor, state: State, policy: Policy, seed: int, block: int) -> State:
    """One step, word for word as section 2 of the method has it, in lists of numbers."""
    committed = sum(token != MASK for token in state)
    drawn: dict[int, int] = {}
    confidence: dict[int, float] = {}
    for i in (i for i, token in enumerate(state) if token == MASK):
        logp = torch.log_softmax(logits[i] / (policy.temperature or 1.0), -1)
        score = dict(enumerate(logp.tolist()))
        if policy.temperature:
            ranked = sorted(score, key=lambda v: (-score[v], v))
            if policy.top_k:
                ranked = ranked[: policy.top_k]
            mass = math.fsum(math.exp(score[v]) for v in ranked)
            noise = gumbel(step_key(seed, block, committed), torch.tensor(i), torch.arange(len(logp))).tolist()
            allowed, below = {}, 0.0
            for v in ranked:
                if below < policy.top_p:
                    allowed[v] = score[v] + noise[v]
                below += math.exp(score[v]) / mass
            score = allowed
        drawn[i] = min(score, key=lambda v: (-score[v], v))
        law = torch.log_softmax(logits[i], -1) if policy.confidence == "untempered" else logp
        confidence[i] = float(law[drawn[i]].exp())
    surest = min(confidence, key=lambda i: (-confidence[i], i))
    chosen = {surest}
    if isinstance(policy.rule, Threshold):
        chosen = {i for i in confidence if confidence[i] > policy.rule.tau} or chosen
    return tuple(drawn[i] if i in chosen else token for i, token in enumerate(state))


def plain_decode(target: ToyTarget, prompt: Sequence[int], policy: Policy, seed: int) -> Decoded:
    """Tokens, finish and visits only."""
    ids, visits = list(prompt), list[Visit]()
    while True:
        block = len(ids) // SIZE
        before, tail = ids[: block * SIZE], ids[block * SIZE :]
        state: State = (*tail, *[MASK] * (SIZE - len(tail)))
        while MASK in state:
            logits = target.law(before, state)
            logits[:, list(target.spec.excluded_ids)] = -math.inf
            state = plain_step(logits, state, policy, seed, block)
            visits.append((block, state))
        ids = [*before, *state]
        answer = ids[len(prompt) :][: policy.max_new_tokens]
        ends = [n for n, token in enumerate(answer) if token in target.spec.stop_ids]
        if ends:
            return Decoded(tuple(answer[: ends[0] + 1]), "end", visits)
        if len(answer) == policy.max_new_tokens:
            return Decoded(tuple(answer), "length", visits)


@settings(max_examples=150, deadline=None)
@given(target=targets, prompt=prompts, policy=policies, seed=st.integers(0, 2**64 - 1))
def test_the_baseline_iterates_the_step_of_the_specification(
    target: StrictToy, prompt: list[int], policy: Policy, seed: int
) -> None:
    done, wanted = (
        decode(target, prompt, policy, drafters.make("none"), seed=seed),
        plain_decode(target, prompt, policy, seed),
    )
    assert done.visits == wanted.visits
    assert (done.tokens, done.finish) == (wanted.tokens, wanted.finish)


@pytest.mark.parametrize("name", ["chain", "best-first", "oracle"])
@settings(max_examples=60, deadline=None)
@given(
    target=targets, prompt=prompts, policy=policies, rows=st.sampled_from([2, 3, 8, 16]), seed=st.integers(0, 2**64 - 1)
)
def test_drafting_ends_where_the_specification_does(
    name: str, target: StrictToy, prompt: list[int], policy: Policy, rows: int, seed: int
) -> None:
    wanted = plain_decode(target, prompt, policy, seed)
    done = decode(target, prompt, policy, drafters.make(name), rows, seed, future=wanted.visits)
    assert done.visits == wanted.visits
    assert (done.tokens, done.finish) == (wanted.tokens, wanted.finish)


@pytest.mark.parametrize("commit", ["fused", "separate"])
@settings(max_examples=40, deadline=None)
@given(target=targets, prompt=prompts, policy=policies)
def test_the_context_ends_with_every_block_that_was_committed(
    commit: str, target: StrictToy, prompt: list[int], policy: Policy
) -> None:
    """Fused, the last block's commit would have ridden in a pass that never comes."""
    policy = replace(policy, commit=commit)  # type: ignore[arg-type]
    done = decode(target, prompt, policy, drafters.make("best-first"), rows=4)
    blocks = {block: state for block, state in done.visits}  # noqa: C416 - the last visit of each block stays
    written = [*prompt[: len(prompt) // SIZE * SIZE], *(token for state in blocks.values() for token in state)]
    assert target.context.ids == (written if commit == "separate" else written[:-SIZE])


@settings(max_examples=60, deadline=None)
@given(target=targets, prompt=prompts, policy=policies, rows=st.sampled_from([1, 3, 8]))
def test_how_finished_blocks_are_committed_changes_passes_only(
    target: StrictToy, prompt: list[int], policy: Policy, rows: int
) -> None:
    fused, separate = (
        decode(target, prompt, replace(policy, commit=commit), drafters.make("chain"), rows)
        for commit in ("fused", "separate")
    )
    assert fused.visits == separate.visits
    assert (fused.tokens, fused.finish) == (separate.tokens, separate.finish)
    assert [(p.rows, p.depth) for p in fused.passes] == [(p.rows, p.depth) for p in separate.passes]


@pytest.mark.parametrize("rule", [Exact(), Threshold(0.5)])
@settings(max_examples=60, deadline=None)
@given(
    salt=st.integers(0, 99),
    prompt=prompts,
    rows=st.integers(2, 6),
    temperature=st.sampled_from([0.0, 0.7, 1.0]),
    seed=st.integers(0, 9),
    filters=st.sampled_from([(0, 1.0), (2, 1.0), (0, 0.77)]),
)
def test_where_stale_laws_are_true_the_chain_is_as_good_as_the_oracle(
    rule: CommitRule,
    salt: int,
    prompt: list[int],
    rows: int,
    temperature: float,
    seed: int,
    filters: tuple[int, float],
) -> None:
    """So the noise, the filters, the temperature and the rule that it drafts with are the target's own."""
    target = StrictToy(smooth=1.0, salt=salt)
    policy = Policy(SIZE, 11, rule, temperature, *filters)
    plain = decode(target, prompt, policy, drafters.make("none"), seed=seed)
    chain = decode(target, prompt, policy, drafters.make("chain"), rows, seed)
    oracle = decode(target, prompt, policy, drafters.make("oracle"), rows, seed, future=plain.visits)
    assert len(chain.passes) == len(oracle.passes)


def passes(name: str, rows: int, temperature: float, smooth: float = 0.85) -> int:
    """Over 12 targets of wider blocks, whose laws change a little with every commit."""
    policy = Policy(12, 24, temperature=temperature)
    targets = ((StrictToy(2.0, size=12, vocabulary=9, smooth=smooth, salt=salt), salt) for salt in range(12))
    return sum(len(decode(t, [], policy, drafters.make(name), rows, seed).passes) for t, seed in targets)


@pytest.mark.parametrize("name", ["chain", "best-first"])
def test_drafts_are_accepted(name: str) -> None:
    """The equalities of this folder are no empty ones."""
    for temperature in (0.0, 1.0):
        assert passes(name, 6, temperature) < 0.75 * passes("none", 1, temperature)


@pytest.mark.parametrize("name", ["chain", "best-first"])
def test_coupling_saves_passes_where_there_is_noise(name: str) -> None:
    uncoupled = f"{name}-uncoupled"
    assert passes(name, 6, 1.0, smooth=1.0) < 0.92 * passes(uncoupled, 6, 1.0, smooth=1.0)
    assert passes(name, 6, 0.0) == passes(uncoupled, 6, 0.0)


def test_a_draft_of_the_current_state_or_twice_the_same_takes_no_row() -> None:
    class Repeats(Drafter):
        name = "repeats"

        def propose(self, view: DraftView, rows: int) -> list[State]:
            seen.append(view)
            return [view.state] * rows

    seen: list[DraftView] = []
    done = decode(StrictToy(), [1] * (SIZE + 1), Policy(SIZE, SIZE), Repeats(), rows=5)
    assert {p.rows for p in done.passes} == {1}
    assert all(view.offset == SIZE * view.block for view in seen)
    assert {view.block for view in seen} == {block for block, _ in done.visits}


class Spy(Drafter):
    """Drafts nothing and remembers what it was asked."""

    name = "spy"

    def __init__(self) -> None:
        self.futures: list[Sequence[Visit]] = []
        self.views: list[tuple[DraftView, int]] = []

    def start(self, future: Sequence[Visit]) -> None:
        self.futures.append(future)

    def propose(self, view: DraftView, rows: int) -> list[State]:
        self.views.append((view, rows))
        return []


def test_a_drafter_is_asked_only_where_a_draft_could_be_accepted() -> None:
    """Not in a block's first pass, which has nothing stale; not for its last position; not without rows to spare."""
    target, policy = StrictToy(), Policy(SIZE, 2 * SIZE)
    target.spec = replace(target.spec, stop_ids=frozenset())
    spy = Spy()
    decode(target, [], policy, spy, rows=4)
    assert [(view.block, view.committed, rows) for view, rows in spy.views] == [
        (block, committed, 3) for block in range(2) for committed in range(1, SIZE - 1)
    ]
    alone = Spy()
    decode(target, [], policy, alone, rows=1)
    assert alone.views == []


def test_a_drafter_that_does_not_ask_for_the_future_does_not_get_it() -> None:
    spy, future = Spy(), [(0, (1,) * SIZE)]
    decode(StrictToy(), [], Policy(SIZE, SIZE), spy, rows=2, future=future)
    assert [list(given) for given in spy.futures] == [[]]
    spy.needs_future = True
    decode(StrictToy(), [], Policy(SIZE, SIZE), spy, rows=2, future=future)
    assert spy.futures[1] == future


def test_a_drafter_sees_the_laws_of_the_pass_before() -> None:
    target, spy = StrictToy(salt=5), Spy()
    laws: list[Tensor] = []

    def watch(block: int, state: State, prediction: Prediction, after: State, logits: Tensor) -> None:
        assert prediction.positions == [i for i, token in enumerate(state) if token == MASK]
        assert extends(after, state)
        laws.append(logits.log_softmax(-1))

    decode(target, [], Policy(SIZE, SIZE), spy, rows=2, watch=watch)
    assert len(spy.views) == SIZE - 2
    for (view, _), law in zip(spy.views, laws, strict=False):
        open_ = masked(view.state)
        torch.testing.assert_close(view.log_probs[open_], law.gather(-1, view.token_ids)[open_])


def test_an_end_token_beyond_the_last_token_asked_for_does_not_count() -> None:
    done = [decode(StrictToy(salt=salt), [], Policy(SIZE, 2), drafters.make("none")) for salt in range(99)]
    beyond = [one for one in done if 0 in one.visits[-1][1][2:] and 0 not in one.visits[-1][1][:2]]
    assert beyond
    for one in beyond:
        assert (one.finish, one.tokens) == ("length", one.visits[-1][1][:2])


def test_an_end_token_that_is_the_last_one_asked_for_ends_the_answer() -> None:
    done = [decode(StrictToy(salt=salt), [], Policy(SIZE, 2), drafters.make("none")) for salt in range(99)]
    last = [one for one in done if one.visits[-1][1][1] == 0 != one.visits[-1][1][0]]
    assert last
    assert {one.finish for one in last} == {"end"}


def test_an_end_token_in_the_prompt_ends_nothing() -> None:
    target = StrictToy()
    target.spec = replace(target.spec, stop_ids=frozenset({1}))
    done = decode(target, [1, 1, 1], Policy(SIZE, 1), drafters.make("none"))
    assert len(done.tokens) == 1
    assert done.tokens == done.visits[-1][1][3:]


@pytest.mark.parametrize(
    "state",
    [[MASK] * SIZE, torch.full((SIZE,), MASK), tuple(torch.full((SIZE,), MASK)), (1.0,) * SIZE, None],
    ids=["list", "tensor", "tuple of tensors", "floats", "nothing"],
)
def test_a_state_of_another_type_is_an_error_that_names_the_drafter(state: State) -> None:
    """Some of these would fail far from here, and a tuple of tensors would silently never be right."""

    class Untyped(Drafter):
        name = "untyped"

        def propose(self, view: DraftView, rows: int) -> list[State]:
            return [state]

    with pytest.raises(DraftError, match="drafter untyped .* tuple of ints"):
        decode(StrictToy(), [], Policy(SIZE, SIZE), Untyped(), rows=2)
