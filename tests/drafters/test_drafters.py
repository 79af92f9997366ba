"""What every drafter owes the loop, and what the view owes every drafter."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import drafters
from drafters.base import DraftView, stale_view
from suite.decoding.policy import Policy, predict
from suite.decoding.rules import Threshold
from suite.decoding.state import MASK, State
from suite.errors import UserError

SIZE, VOCABULARY = 6, 50
FAIR = [name for name in drafters.names() if not drafters.make(name).needs_future]


@st.composite
def views(draw: st.DrawFn) -> DraftView:
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    logits = draw(st.sampled_from([0.0, 1.0, 8.0])) * torch.randn(SIZE, VOCABULARY, generator=generator)
    state = draw(
        st.lists(st.sampled_from([MASK, MASK, 3, 4]), min_size=SIZE, max_size=SIZE).filter(lambda s: s.count(MASK) > 1)
    )
    rule = draw(st.sampled_from([Policy(SIZE, 9).rule, Threshold(0.3)]))
    policy = Policy(SIZE, 9, rule, temperature=draw(st.sampled_from([0.0, 1.0])), top_k=draw(st.sampled_from([0, 3])))
    return stale_view(logits, tuple(state), tuple(state), 1, policy, seed=draw(st.integers(0, 9)))


@pytest.mark.parametrize("name", FAIR)
@settings(max_examples=80, deadline=None)
@given(view=views(), rows=st.integers(1, 20))
def test_proposals_are_distinct_unfinished_states_that_extend_the_current_one(
    name: str, view: DraftView, rows: int
) -> None:
    proposed = drafters.make(name).propose(view, rows)
    assert len(set(proposed)) == len(proposed) <= rows
    for state in proposed:
        assert MASK in state
        assert state != view.state
        assert all(old in (MASK, new) for old, new in zip(view.state, state, strict=True))
    assert proposed == drafters.make(name).propose(view, rows), "the same view gives the same draft"


@pytest.mark.parametrize("name", ["chain", "best-first", "left-to-right"])
@settings(max_examples=40, deadline=None)
@given(view=views(), rows=st.integers(1, 12))
def test_every_proposal_can_be_reached_through_the_others(name: str, view: DraftView, rows: int) -> None:
    if isinstance(view.policy.rule, Threshold):
        return
    proposed = drafters.make(name).propose(view, rows)
    known = {view.state, *proposed}
    for state in proposed:
        parents = {(*state[:i], MASK, *state[i + 1 :]) for i in range(SIZE) if state[i] != view.state[i]}
        assert parents & known, "no pass could ever accept it"


def test_a_coupled_token_is_the_targets_own_draw_where_the_stale_law_is_the_true_one() -> None:
    logits = torch.randn(SIZE, 20, generator=torch.Generator().manual_seed(0))
    for temperature, top_k, top_p in [(0.0, 0, 1.0), (1.0, 0, 1.0), (0.7, 5, 1.0), (1.0, 0, 0.6), (1.3, 8, 0.7)]:
        policy = Policy(SIZE, 9, temperature=temperature, top_k=top_k, top_p=top_p)
        for state in [(MASK,) * SIZE, (1, MASK, 2, MASK, MASK, MASK)]:
            view = stale_view(logits, state, state, 2, policy, seed=5)
            drawn = predict(logits, state, policy, seed=5, block=2)
            choice = view.choice(view.committed)
            assert [choice.tokens[i][0] for i in drawn.positions] == drawn.tokens
            assert [choice.confidences[i][0] for i in drawn.positions] == pytest.approx(drawn.confidences)


def test_coupling_makes_a_difference_only_where_there_is_noise() -> None:
    logits = torch.randn(SIZE, 20, generator=torch.Generator().manual_seed(0))
    state: State = (MASK,) * SIZE
    cold = stale_view(logits, state, state, 0, Policy(SIZE, 9), seed=0)
    assert cold.choice(0) == cold.choice(0, coupled=False)
    warm = stale_view(logits, state, state, 0, Policy(SIZE, 9, temperature=1.0), seed=0)
    assert warm.choice(0).tokens != warm.choice(0, coupled=False).tokens
    assert warm.choice(0).tokens != warm.choice(1).tokens, "each step has fresh noise"


def test_a_view_holds_the_top_32_sorted_with_the_lower_id_first_on_a_tie() -> None:
    view = stale_view(torch.zeros(SIZE, VOCABULARY), (MASK,) * SIZE, (MASK,) * SIZE, 0, Policy(SIZE, 9), seed=0)
    assert view.token_ids.shape == view.log_probs.shape == (SIZE, 32)
    assert (view.token_ids.diff(dim=-1) > 0).all()


def test_best_first_takes_the_surest_position_first() -> None:
    logits = torch.zeros(SIZE, VOCABULARY)
    logits[4, 7], logits[2, 9] = 9.0, 7.0
    view = stale_view(logits, (MASK,) * SIZE, (MASK,) * SIZE, 0, Policy(SIZE, 9), seed=0)
    first, second = drafters.make("best-first").propose(view, 2)
    assert first == (MASK, MASK, MASK, MASK, 7, MASK)
    assert second == (MASK, MASK, 9, MASK, 7, MASK)


def test_an_unknown_drafter_names_the_known_ones() -> None:
    with pytest.raises(UserError, match="best-first"):
        drafters.make("best-frist")


def test_every_drafter_says_what_it_is() -> None:
    for name in drafters.names():
        assert drafters.make(name).name == name
        assert len(drafters.about(name)) > 10
