"""Spiffy and its variants: how formulas become states, and what the drafters owe the loop once they have a graph."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import drafters
from drafters import DraftView, calibration
from drafters.base import Drafter, stale_view
from drafters.formulas import Draft, Formula, named
from drafters.formulas import drafts as made_into
from drafters.spiffy import PRUNED_FROM, pruned
from suite import trace
from suite.decoding.decode import decode
from suite.decoding.policy import Policy
from suite.decoding.state import MASK, State
from suite.errors import UserError
from tests.drafters.test_proposals import view
from tests.drafters.traces import toy, toy_header, toy_request, toy_traces

EMPTY: State = (MASK,) * 6
NAMES = [f"{name}{twin}" for name in ("spiffy", "spiffy-pruned", "spiffy-coverage") for twin in ("", "-uncoupled")]
RULES = ["exact", "threshold(0.5)"]
A, B, C = ((0, 0),), ((1, 0),), ((2, 0),)
LAWS = {0: [0.2, 0.8], 1: [0.95, 0.05], 2: [0.6, 0.4]}
"""By confidence: position 1, then 0, then 2."""


@pytest.fixture(scope="module", autouse=True)
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> object:
    """The toy target has calibrations for both rules, of train prompts."""
    home: Path = tmp_path_factory.mktemp("calibrations")
    for rule in RULES:
        calibration.write(calibration.calibrate(toy_traces(toy_header(rule))), home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(calibration.FOLDER, str(home))
        yield home


def attached(name: str, policy: Policy) -> Drafter:
    drafter = drafters.make(name)
    drafter.attach("toy", policy)
    return drafter


def states(formulas: Sequence[Formula], of: DraftView, coupled: bool = True) -> list[State]:
    return [draft.state for draft in made_into(formulas, of, coupled=coupled)]


def test_a_pair_is_a_position_by_confidence_and_a_token_by_likelihood() -> None:
    assert states([(A,), (B,), (C,)], view(LAWS)) == [(MASK, 0, MASK), (1, MASK, MASK), (MASK, MASK, 0)]
    assert states([(A,), (A, ((1, 1),))], view(LAWS)) == [(MASK, 0, MASK), (0, 0, MASK)]
    assert states([(((0, 0), (2, 1)),)], view(LAWS)) == [(MASK, 0, 1)]


def test_ranks_are_among_the_open_positions() -> None:
    assert states([(A,), (B,)], view(LAWS, (MASK, 5, MASK))) == [(1, 5, MASK), (MASK, 5, 0)]


def test_what_the_block_has_no_room_for_is_left_out() -> None:
    """Ranks beyond the open positions or the vocabulary, complete states, and whatever adds to either."""
    formulas = [(A,), (A, C), (B,), (A, B), (((0, 2),),), (((0, 2),), B)]
    assert states(formulas, view(LAWS, (MASK, 5, MASK))) == [(1, 5, MASK), (MASK, 5, 0)]
    assert states(formulas, view(LAWS, (MASK, 5, 5))) == []


def test_a_token_that_the_filters_drop_is_left_out() -> None:
    greedy = view(LAWS, policy=Policy(3, 3, temperature=1.0, top_k=1))
    assert len(states([(A,), (B,)], greedy)) == 2
    assert states([(((0, 1),),), (((0, 1),), B)], greedy) == []


def test_paths_that_meet_share_a_row() -> None:
    assert len(states([(A,), (B,), (A, B)], view(LAWS))) == 3
    met = states([(A,), (B,), (A, B), (B, A)], view(LAWS))
    assert len(met) == 3
    assert met[2] == (1, 0, MASK)


def warm_views(count: int = 30, size: int = 6, temperature: float = 1.0) -> list[DraftView]:
    logits = 2 * torch.randn(size, 20, generator=torch.Generator().manual_seed(1))
    return [
        stale_view(logits, (MASK,) * size, (MASK,) * size, 0, Policy(size, 9, temperature=temperature), seed)
        for seed in range(count)
    ]


@pytest.mark.parametrize("twin", ["", "-uncoupled"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_first_ranks_one_by_one_are_the_chain(temperature: float, twin: str) -> None:
    """With shared noise each step draws anew, and ranks what is open by what it drew, as the target does."""
    first: list[Formula] = [tuple(((i, 0),) for i in range(n + 1)) for n in range(6)]
    for one in warm_views(temperature=temperature):
        assert states(first, one, coupled=not twin) == drafters.make(f"chain{twin}").propose(one, 9)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_path_told_in_ranks_is_found_again(temperature: float) -> None:
    """`named` and `drafts` are each other's inverse, along any path of tokens that were drawn."""
    for one in warm_views(temperature=temperature):
        for after in (drafters.make("chain").propose(one, 4), drafters.make("left-to-right").propose(one, 4)):
            formula = named(one, after)
            assert len(formula) == 4
            assert states([formula[: n + 1] for n in range(4)], one) == after


def test_uncoupled_is_coupled_where_there_is_no_noise() -> None:
    for rule in RULES:
        policy = toy_header(rule).policy
        for seed in range(9):
            one = stale_view(
                torch.randn(6, 12, generator=torch.Generator().manual_seed(seed)), EMPTY, EMPTY, 0, policy, seed
            )
            for name in ("spiffy", "spiffy-pruned", "spiffy-coverage"):
                for rows in (2, 9):
                    proposed = attached(name, policy).propose(one, rows)
                    assert attached(f"{name}-uncoupled", policy).propose(one, rows) == proposed
    warm = warm_views(1)[0]
    assert attached("spiffy", warm.policy).propose(warm, 9) != attached("spiffy-uncoupled", warm.policy).propose(
        warm, 9
    )


@st.composite
def views(draw: st.DrawFn) -> DraftView:
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    logits = draw(st.sampled_from([0.0, 1.0, 8.0])) * torch.randn(6, 12, generator=generator)
    cells = st.lists(st.sampled_from([MASK, MASK, 3, 4]), min_size=6, max_size=6)
    state = draw(cells.filter(lambda s: s.count(MASK) > 1))
    header = toy_header(draw(st.sampled_from(RULES)), draw(st.sampled_from([0.0, 1.0])))
    return stale_view(logits, tuple(state), tuple(state), 1, header.policy, seed=draw(st.integers(0, 9)))


def follows(child: Sequence[int], parent: Sequence[int]) -> bool:
    return child != parent and all(old in (MASK, new) for old, new in zip(parent, child, strict=True))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=views(), rows=st.integers(1, 30))
def test_proposals_are_distinct_open_states_that_can_be_reached(name: str, one: DraftView, rows: int) -> None:
    proposed = attached(name, one.policy).propose(one, rows)
    assert proposed
    assert len(set(proposed)) == len(proposed) <= rows
    for state in proposed:
        assert MASK in state
        assert follows(state, one.state)
        if str(one.policy.rule) == "exact":
            added = [i for i in range(6) if state[i] != one.state[i]]
            assert {(*state[:i], MASK, *state[i + 1 :]) for i in added} & {one.state, *proposed}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("rule", RULES)
def test_a_decode_is_lossless_and_its_replay_the_same(rule: str, temperature: float, name: str) -> None:
    header = toy_header(rule, temperature)
    passes = steps = 0
    for doc_id in range(20, 24):
        one = trace.record_one(header, toy(), toy_request(doc_id))
        for rows in (2, 3, 5, 9, 17):
            drafter = attached(name, header.policy)
            live = decode(toy(), toy().encode(toy_request(doc_id).prompt), header.policy, drafter, rows, one.seed)
            replayed = trace.replay(one, header, attached(name, header.policy), rows)
            assert (live.tokens, live.visits) == (tuple(one.tokens), one.visits)
            assert [(p.rows, p.depth) for p in replayed] == [(p.rows, p.depth) for p in live.passes]
            assert max(p.rows for p in replayed) <= rows
            passes, steps = passes + len(replayed), steps + len(one.steps)
    assert passes < steps, "something was accepted"


def test_pruning_starts_from_ten_and_is_none_beyond() -> None:
    policy = toy_header().policy
    one = stale_view(torch.randn(6, 12, generator=torch.Generator().manual_seed(0)), EMPTY, EMPTY, 0, policy, 0)
    fixed, cut = attached("spiffy", policy), attached("spiffy-pruned", policy)
    assert set(cut.propose(one, 3)) <= set(fixed.propose(one, PRUNED_FROM))
    assert set(cut.propose(one, 20)) == set(fixed.propose(one, 20))


def draft(state: State, depth: int, *chances: float) -> Draft:
    return Draft(state, depth, chances, ())


def test_scores_are_geometric_means_of_own_and_childrens_by_hand() -> None:
    """a 0.5 with a child of 0.9: sqrt(0.45) = 0.67; b 0.6 alone; c 0.64 alone. The child of a waits for a."""
    a, b, c = draft((1, -1, -1), 1, 0.5), draft((-1, 1, -1), 1, 0.6), draft((-1, -1, 1), 1, 0.64)
    child = draft((1, -1, 2), 2, 0.9, 0.9)
    found = [b, child, c, a]
    assert pruned(found, 1) == [a]
    assert pruned(found, 2) == [a, child]
    assert pruned(found, 3) == [a, child, c]
    assert pruned(found, 9) == [a, child, c, b]


def test_a_state_without_its_parent_is_never_kept() -> None:
    orphan = draft((1, 1, -1), 2, 1.0, 1.0)
    assert pruned([orphan], 4) == []


@given(one=views(), most=st.integers(1, 12))
def test_pruning_keeps_the_budget_and_the_connection(one: DraftView, most: int) -> None:
    found = made_into(calibration.find("toy", one.policy).accumulated[:20], one)
    kept = pruned(found, most)
    assert len(kept) == min(most, len(found))
    for n, state in enumerate(kept):
        before = [one.state for _ in range(state.depth == 1)] + [
            p.state for p in kept[:n] if p.depth == state.depth - 1
        ]
        assert any(follows(state.state, parent) for parent in before)


def test_a_target_without_a_calibration_is_one_line() -> None:
    for name in NAMES:
        with pytest.raises(UserError, match="no calibration of sdar for the rule exact; spotbench calibrate"):
            drafters.make(name).attach("sdar", Policy(6, 14))


def test_a_drafter_that_was_not_attached_proposes_nothing() -> None:
    assert [drafters.make(name).propose(view(LAWS), 9) for name in NAMES] == [[]] * len(NAMES)
