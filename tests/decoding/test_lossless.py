"""Losslessness on a toy target: whatever is drafted, the baseline's tokens come out."""

import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drafters
from drafters import Drafter, DraftError, DraftView
from drafters.base import stale_view
from suite.decoding.decode import Decoded, decode
from suite.decoding.policy import Policy, Prediction, predict, step
from suite.decoding.rules import CommitRule, Exact, Threshold
from suite.decoding.state import MASK, Row, State, fill, masked
from tests.toy import SIZE, VOCABULARY, ToyTarget

policies = st.builds(
    Policy,
    block_size=st.just(SIZE),
    max_new_tokens=st.sampled_from([1, 5, 12]),
    rule=st.sampled_from([Exact(), Threshold(0.5), Threshold(0.9)]),
    temperature=st.sampled_from([0.0, 0.7, 1.0]),
    top_k=st.sampled_from([0, 0, 2]),
    top_p=st.sampled_from([1.0, 1.0, 0.8]),
    confidence=st.sampled_from(["tempered", "untempered"]),
    commit=st.sampled_from(["fused", "separate"]),
)
prompts = st.lists(st.integers(1, VOCABULARY - 2), max_size=9)
budgets = st.sampled_from([1, 2, 3, 8, 16])
targets = st.builds(
    ToyTarget,
    sharpness=st.sampled_from([0.0, 1.0, 4.0]),
    smooth=st.sampled_from([0.0, 0.8]),
    salt=st.integers(0, 50),
)


def baseline(target: ToyTarget, prompt: Sequence[int], policy: Policy, seed: int) -> Decoded:
    return decode(target, prompt, policy, drafters.make("none"), seed=seed)


@pytest.mark.parametrize("name", drafters.names())
@settings(max_examples=60, deadline=None)
@given(target=targets, prompt=prompts, policy=policies, rows=budgets, seed=st.integers(0, 9))
def test_every_drafter_gives_the_baselines_tokens_in_no_more_passes(
    name: str, target: ToyTarget, prompt: list[int], policy: Policy, rows: int, seed: int
) -> None:
    plain = baseline(target, prompt, policy, seed)
    target.rows_in_pass.clear()
    drafted = decode(target, prompt, policy, drafters.make(name), rows, seed, future=plain.visits)
    assert (drafted.tokens, drafted.finish, drafted.visits) == (plain.tokens, plain.finish, plain.visits)
    assert len(drafted.passes) <= len(plain.passes)
    assert max(target.rows_in_pass) <= rows
    assert sum(1 + p.depth for p in drafted.passes) == len(plain.visits)
    assert len(target.rows_in_pass) == len(drafted.passes) + drafted.commit_passes
    blocks = len({block for block, _ in plain.visits})
    assert drafted.commit_passes == (blocks if policy.commit == "separate" else 0)
    assert drafted.prefill_passes == (len(prompt) >= SIZE)


class Nonsense(Drafter):
    """Proposes what a hypothesis strategy draws: duplicates, finished states, states nobody reaches."""

    name = "nonsense"

    def __init__(self, draw: Callable[[], list[State]]) -> None:
        self.draw = draw

    def propose(self, view: DraftView, rows: int) -> list[State]:
        drawn = [zip(view.state, state, strict=True) for state in self.draw()[:rows]]
        return [tuple(new if old == MASK else old for old, new in pairs) for pairs in drawn]


states = st.lists(st.integers(MASK, VOCABULARY - 1), min_size=SIZE, max_size=SIZE).map(tuple)


@settings(max_examples=150, deadline=None)
@given(target=targets, prompt=prompts, policy=policies, rows=budgets, nonsense=st.lists(st.lists(states), min_size=1))
def test_nonsense_costs_rows_but_never_an_output(
    target: ToyTarget, prompt: list[int], policy: Policy, rows: int, nonsense: list[list[State]]
) -> None:
    plain, calls = baseline(target, prompt, policy, 0), iter(range(10**6))
    drafted = decode(target, prompt, policy, Nonsense(lambda: nonsense[next(calls) % len(nonsense)] * 2), rows)
    assert drafted.visits == plain.visits
    assert drafted.tokens == plain.tokens


class Faulty(Drafter):
    name = "faulty"

    def __init__(self, states: list[State]) -> None:
        self.states = states

    def propose(self, view: DraftView, rows: int) -> list[State]:
        return self.states


@pytest.mark.parametrize(
    ("proposed", "says"),
    [
        ([(MASK,) * (SIZE - 1)], f"state of length {SIZE - 1}; a block has {SIZE}"),
        ([(MASK,) * (SIZE + 1)], f"state of length {SIZE + 1}"),
        ([(VOCABULARY,) * SIZE], "outside the vocabulary"),
        ([(-2,) * SIZE], "outside the vocabulary"),
        ([(MASK,) * SIZE] * 9, "9 states where 2 were allowed"),
    ],
)
def test_a_broken_proposal_is_an_error_that_names_the_drafter(proposed: list[State], says: str) -> None:
    with pytest.raises(DraftError, match="faulty") as error:
        decode(ToyTarget(), [], Policy(SIZE, 8), Faulty(proposed), rows=3)
    assert says in str(error.value)


class Shuffled(Drafter):
    """Another drafter's states in reverse."""

    name = "shuffled"

    def __init__(self, inner: Drafter) -> None:
        self.inner = inner

    def propose(self, view: DraftView, rows: int) -> list[State]:
        return self.inner.propose(view, rows)[::-1]


@settings(max_examples=60, deadline=None)
@given(target=targets, policy=policies, rows=budgets)
def test_the_order_of_the_rows_changes_nothing(target: ToyTarget, policy: Policy, rows: int) -> None:
    one = decode(target, [1, 2], policy, drafters.make("best-first"), rows)
    other = decode(target, [1, 2], policy, Shuffled(drafters.make("best-first")), rows)
    assert [(p.rows, p.depth) for p in one.passes] == [(p.rows, p.depth) for p in other.passes]
    assert one.visits == other.visits


@settings(max_examples=60, deadline=None)
@given(
    target=targets,
    prompt=prompts,
    rows=st.integers(2, 9),
    temperature=st.sampled_from([0.0, 1.0]),
    seed=st.integers(0, 9),
)
def test_the_perfect_needs_the_theoretical_minimum(
    target: ToyTarget, prompt: list[int], rows: int, temperature: float, seed: int
) -> None:
    """A block's first pass has no stale distributions, hence one row; each later one commits up to `rows` steps."""
    policy = Policy(SIZE, 12, temperature=temperature)
    plain = baseline(target, prompt, policy, seed)
    best = decode(target, prompt, policy, drafters.make("perfect"), rows, seed, future=plain.visits)
    steps = [sum(block == b for block, _ in plain.visits) for b in dict.fromkeys(block for block, _ in plain.visits)]
    assert len(best.passes) == sum(1 + math.ceil((n - 1) / rows) for n in steps)


def test_an_end_token_in_the_middle_ends_after_its_block() -> None:
    decodes = (decode(ToyTarget(salt=salt), [], Policy(SIZE, 40), drafters.make("none")) for salt in range(99))
    done = next(done for done in decodes if 0 in done.tokens[: SIZE - 1])
    assert done.finish == "end"
    assert done.tokens[-1] == 0
    assert 0 not in done.tokens[:-1]
    assert len(done.passes) == SIZE  # the whole first block, and no other


def test_a_prompts_tail_shares_its_block_with_the_answer() -> None:
    done = decode(ToyTarget(salt=3), [1, 2, 3, 4, 1], Policy(SIZE, SIZE), drafters.make("none"))
    assert done.visits[0][0] == 1
    assert all(state[0] == 1 for block, state in done.visits if block == 1)
    assert sum(block == 1 for block, _ in done.visits) == SIZE - 1


# --- the checks have teeth: loops that accept too easily drift from the baseline ----------------

Accepts = Callable[[State, State, Prediction, CommitRule], bool]


def exact(state: State, draft: State, prediction: Prediction, rule: CommitRule) -> bool:
    return draft == step(prediction, state, rule)


def tokens_only(state: State, draft: State, prediction: Prediction, rule: CommitRule) -> bool:
    """Its tokens are what the target predicts there, whichever positions are due."""
    return _tokens_agree(state, draft, prediction)


def subset(state: State, draft: State, prediction: Prediction, rule: CommitRule) -> bool:
    """Its tokens are right and its positions are due, but others may be due as well."""
    due = {prediction.positions[n] for n in rule.choose(prediction.confidences)}
    return _tokens_agree(state, draft, prediction) and {i for i in masked(state) if draft[i] != MASK} <= due


def _tokens_agree(state: State, draft: State, prediction: Prediction) -> bool:
    token = dict(zip(prediction.positions, prediction.tokens, strict=True))
    new = [i for i in masked(state) if draft[i] != MASK]
    return bool(new) and fill(state, new, [token[i] for i in new]) == draft


def drift(rule: CommitRule, accepts: Accepts, drafter: str) -> int:
    """On how many of 40 targets a loop that walks on through any accepted row leaves the baseline's block."""
    size, count = 8, 0
    policy = Policy(size, size, rule)
    for salt in range(40):
        target = ToyTarget(sharpness=3.0, smooth=0.5, salt=salt, size=size)
        plain = decode(target, [], policy, drafters.make("none"))
        state: State = (MASK,) * size
        context, stale, before = target.prefill([]), None, state
        while MASK in state:
            view = stale_view(stale, before, state, 0, policy, 0) if stale is not None else None
            rows = [state, *(drafters.make(drafter).propose(view, 3) if view else [])]
            logits, here = target.evaluate(context, [Row((), s) for s in rows]), 0
            taken: int | None = 0
            while taken is not None and MASK in state:
                stale, before = logits[here], state
                prediction = predict(stale, state, policy, 0, 0)
                taken = next((n for n, s in enumerate(rows) if n and accepts(state, s, prediction, rule)), None)
                state = step(prediction, state, rule) if taken is None else rows[taken]
                here = taken or 0
        count += state != plain.visits[-1][1]
    return count


@pytest.mark.parametrize("rule", [Exact(), Threshold(0.7)])
@pytest.mark.parametrize("drafter", ["left-to-right", "chain"])
def test_set_equality_in_that_loop_does_not_drift(rule: CommitRule, drafter: str) -> None:
    assert drift(rule, exact, drafter) == 0


def test_negative_accepting_tokens_without_their_positions_drifts() -> None:
    assert drift(Exact(), tokens_only, "left-to-right") > 0


def test_negative_accepting_a_subset_of_a_threshold_step_drifts() -> None:
    assert drift(Threshold(0.7), subset, "left-to-right") > 0
