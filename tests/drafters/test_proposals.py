"""What each drafter proposes, on laws made by hand."""

from collections.abc import Mapping

import pytest
import torch

import drafters
from drafters import DraftError, DraftView
from drafters.base import Drafter, checked, stale_view
from suite.decoding.policy import Policy
from suite.decoding.rules import Threshold
from suite.decoding.state import MASK, State, Visit

SIZE = 3
EMPTY: State = (MASK,) * SIZE
COLD = Policy(SIZE, SIZE)


def view(
    laws: Mapping[int, list[float]], state: State = EMPTY, policy: Policy = COLD, seed: int = 0, block: int = 0
) -> DraftView:
    """Of stale probabilities by position; even odds of eight tokens where none are given."""
    width = max((len(law) for law in laws.values()), default=8)
    even = [1 / width] * width
    probabilities = torch.tensor([laws.get(i, even) for i in range(len(state))])
    return stale_view(probabilities.log(), state, state, block, policy, seed)


def test_a_choice_is_made_once() -> None:
    warm = view({}, policy=Policy(SIZE, SIZE, temperature=1.0))
    assert warm.choice(1) is warm.choice(1)
    assert warm.choice(1, coupled=False) is warm.choice(2, coupled=False)
    assert warm.choice(1) is not warm.choice(2)


def test_chances_are_shares_of_all_that_could_be_drawn() -> None:
    law = [0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1]
    choice = view({0: law}).choice(0)
    assert choice.tokens[0] == [0, 1, 2, 3]
    assert choice.chances[0] == pytest.approx(law[:4])
    assert choice.confidences[0] == pytest.approx(law[:4])
    filtered = view({0: law}, policy=Policy(SIZE, SIZE, top_k=2)).choice(0)
    assert filtered.chances[0] == pytest.approx([0.6, 0.4, 0, 0])
    assert filtered.confidences[0][:2] == pytest.approx(law[:2]), "confidence is read before the filter"


def test_one_state_more_than_allowed_is_an_error() -> None:
    drafts: list[State] = [(1, MASK, MASK), (MASK, 1, MASK), (MASK, MASK, 1)]
    drafter = drafters.make("chain")
    assert checked(drafter, drafts, 3, view({}), 8) == drafts
    with pytest.raises(DraftError, match="chain proposed 3 states where 2"):
        checked(drafter, drafts, 2, view({}), 8)


def test_the_last_token_of_the_vocabulary_is_legal_and_the_one_after_it_is_not() -> None:
    drafter = drafters.make("chain")
    assert checked(drafter, [(7, 0, MASK)], 1, view({}), 8)
    with pytest.raises(DraftError, match="vocabulary of 8"):
        checked(drafter, [(8, 0, MASK)], 1, view({}), 8)


FUTURE: list[Visit] = [(4, (1, MASK, MASK)), (4, (1, 2, MASK)), (4, (1, 2, 3)), (5, (MASK, 1, MASK))]


def perfect() -> Drafter:
    drafter = drafters.make("perfect")
    drafter.start(FUTURE)
    return drafter


def test_the_perfect_drafter_proposes_what_is_still_open_in_its_block() -> None:
    assert perfect().propose(view({}, (1, MASK, MASK), block=4), 5) == [(1, 2, MASK)]
    assert perfect().propose(view({}, (1, 2, MASK), block=4), 5) == []


def test_the_perfect_drafter_knows_nothing_off_the_baselines_path() -> None:
    assert perfect().propose(view({}, (7, MASK, MASK), block=4), 5) == []
    assert perfect().propose(view({}, (1, MASK, MASK), block=5), 5) == []


def test_the_perfect_drafter_forgets_the_prompt_before() -> None:
    drafter = perfect()
    drafter.start([])
    assert drafter.propose(view({}, (1, MASK, MASK), block=4), 5) == []


LAWS = {0: [0.2, 0.8], 1: [0.95, 0.05], 2: [0.6, 0.4]}
"""By confidence: position 1, then 0, then 2."""


def test_the_chain_goes_by_stale_confidence() -> None:
    assert drafters.make("chain").propose(view(LAWS), 9) == [(MASK, 0, MASK), (1, 0, MASK)]
    assert drafters.make("chain").propose(view(LAWS), 1) == [(MASK, 0, MASK)]
    assert drafters.make("chain").propose(view(LAWS, (MASK, 1, MASK)), 9) == [(1, 1, MASK)]


def test_under_a_threshold_the_chain_commits_whole_sets() -> None:
    def chain(tau: float, rows: int = 9) -> list[State]:
        return drafters.make("chain").propose(view(LAWS, policy=Policy(SIZE, SIZE, Threshold(tau))), rows)

    assert chain(0.7) == [(1, 0, MASK)]
    assert chain(0.9) == [(MASK, 0, MASK), (1, 0, MASK)]
    assert chain(0.5) == [], "the whole block at once leaves nothing to verify"


def test_left_to_right_goes_by_position() -> None:
    assert drafters.make("left-to-right").propose(view(LAWS), 9) == [(1, MASK, MASK), (1, 0, MASK)]


def test_random_orders_differ_between_requests_and_cover_all() -> None:
    orders = {tuple(drafters.make("random").propose(view(LAWS, seed=seed), 2)) for seed in range(60)}
    assert len(orders) == 3 * 2


def test_best_first_tries_a_second_token_where_the_law_is_split() -> None:
    split = {0: [0.36, 0.32, 0.32], 1: [0.5, 0.49, 0.01], 2: [0.1, 0.2, 0.7]}
    proposed = drafters.make("best-first").propose(view(split, (MASK, MASK, 1)), 9)
    assert proposed[:2] == [(MASK, 0, 1), (MASK, 1, 1)]
    assert (MASK, 2, 1) not in proposed, "two ranks are tried"


def test_likelihoods_of_paths_that_meet_add_up() -> None:
    """Positions 0 and 1 are alike, so that either may go first. One way to the state with both is less likely (0.13)
    than one of them with its second token (0.18); both ways together are likelier (0.26)."""
    alike = [0.6, 0.4, 0.0, 0.0]
    proposed = drafters.make("best-first").propose(view({0: alike, 1: alike, 2: [0.25] * 4}), 3)
    assert set(proposed[:2]) == {(0, MASK, MASK), (MASK, 0, MASK)}
    assert proposed[2] == (0, 0, MASK)


def test_the_oracle_has_the_true_order_with_stale_tokens() -> None:
    """It goes on for as long as its tokens are right, and stops at the first that is not."""
    drafter = drafters.make("oracle")
    drafter.start([(4, (1, MASK, MASK, MASK)), (4, (1, MASK, 3, MASK)), (4, (1, 2, 3, MASK)), (4, (1, 2, 3, 4))])
    right = {1: [0, 0, 0.9, 0, 0, 0.1], 2: [0, 0, 0, 0.6, 0, 0.4], 3: [0, 0, 0, 0, 1.0, 0]}
    assert drafter.propose(view(right, (1, MASK, MASK, MASK), block=4), 5) == [(1, MASK, 3, MASK), (1, 2, 3, MASK)]
    wrong = right | {2: [0, 0, 0, 0.4, 0, 0.6]}
    assert drafter.propose(view(wrong, (1, MASK, MASK, MASK), block=4), 5) == [(1, MASK, 5, MASK)]
