"""Where a decode left the baseline: numeric ties are told from bugs."""

import math
from dataclasses import replace

import pytest
import torch

import drafters
from suite.decoding.decode import decode
from suite.decoding.noise import gumbel, step_key
from suite.decoding.policy import Policy, predict
from suite.decoding.rules import Exact, Threshold
from suite.decoding.state import MASK, State, Visit, fill, masked
from suite.measure.lossless import TOLERANCE, diverge
from suite.records import Divergence
from tests.toy import SIZE, VOCABULARY, ToyTarget, Uniform

SEED = 4
PROMPT = [1, 2, 3, 4, 1]
"""A whole block and one token of the next."""
START: State = (1, *[MASK] * (SIZE - 1))
GREEDY = Policy(SIZE, 2 * SIZE)


def fixed(*laws: list[float]) -> Uniform:
    """A target of fixed probabilities, a row for each of the SIZE positions."""
    return Uniform(torch.tensor(laws).log())


def visits(target: ToyTarget, policy: Policy = GREEDY) -> list[Visit]:
    return decode(target, PROMPT, policy, drafters.make("none"), seed=SEED).visits


def divergence(target: ToyTarget, first: State, policy: Policy = GREEDY) -> Divergence:
    """Of a method that makes `first` of the first block's start."""
    baseline = visits(target, policy)
    return diverge(target, PROMPT, policy, SEED, baseline, [(1, first), *baseline[1:]])


TIED = fixed([0.0, 0.9, 0.1], [0.0, 0.9, 0.1], [0.0, 0.9, 0.1], [0.0, 0.6, 0.4])
"""Positions 1 and 2 are equally sure of token 1; 3 is less sure."""


def test_another_order_at_equal_confidences_is_a_tie() -> None:
    found = divergence(TIED, (1, MASK, 1, MASK))
    assert visits(TIED)[0] == (1, (1, 1, MASK, MASK))
    assert found == Divergence(block=1, step=0, position=1, token_gap=0.0, confidence_gap=0.0, tie=True)


def test_another_order_at_unequal_confidences_is_a_bug_with_the_lead_as_its_gap() -> None:
    found = divergence(TIED, (1, MASK, MASK, 1))
    assert not found.tie
    assert found.confidence_gap == pytest.approx(0.3, abs=1e-6)
    assert found.token_gap == 0


def test_a_wrong_token_is_a_bug_with_its_gap_in_score() -> None:
    found = divergence(TIED, (1, 2, MASK, MASK))
    assert (found.position, found.tie) == (1, False)
    assert found.token_gap == pytest.approx(math.log(9), abs=1e-5)


def test_another_token_of_equal_probability_is_a_tie() -> None:
    even = fixed(*[[0.0, 0.5, 0.5]] * SIZE)
    found = divergence(even, (1, 2, MASK, MASK))
    assert (found.tie, found.position, found.token_gap, found.confidence_gap) == (True, 1, 0.0, 0.0)


@pytest.mark.parametrize(
    ("what", "first"),
    [
        ("a wrong token at an equally confident position", (1, MASK, 2, MASK)),
        ("a token that is never drawn", (1, 0, MASK, MASK)),
        ("two equally confident positions where one commits", (1, 1, 1, MASK)),
        ("no position at all", START),
        ("another token over a committed one", (2, 1, MASK, MASK)),
        ("a committed position opened again", (MASK, 1, MASK, MASK)),
    ],
)
def test_what_no_rounding_explains_is_a_bug(what: str, first: State) -> None:
    assert not divergence(TIED, first).tie, what


def test_the_same_state_in_another_block_is_a_bug() -> None:
    baseline = visits(TIED)
    assert not diverge(TIED, PROMPT, GREEDY, SEED, baseline, [(2, baseline[0][1]), *baseline[1:]]).tie


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_decode_that_stops_early_or_goes_on_is_a_bug(temperature: float) -> None:
    policy = replace(GREEDY, temperature=temperature)
    baseline = visits(ToyTarget(), policy)
    for method in (baseline[:-1], [*baseline, (9, START)]):
        found = diverge(ToyTarget(), PROMPT, policy, SEED, baseline, method)
        assert (found.tie, found.token_gap, found.confidence_gap) == (False, math.inf, math.inf)


def test_the_first_difference_is_the_one_that_counts() -> None:
    target = ToyTarget(salt=1)
    baseline = visits(target)
    at = SIZE + 1  # the first block holds SIZE - 1 steps, so this is step 2 of the second one
    block, state = baseline[at]
    (new,) = [i for i in masked(baseline[at - 1][1]) if state[i] != MASK]
    wrong = fill(state, [new], [(state[new] + 1) % (VOCABULARY - 1)])
    method = [*baseline[:at], (block, wrong), *((b, (2,) * SIZE) for b, _ in baseline[at + 1 :])]
    found = diverge(target, PROMPT, GREEDY, SEED, baseline, method)
    assert (found.block, found.step, found.position, found.tie) == (2, 2, new, False)
    assert 0 < found.token_gap < math.inf


def test_the_token_gap_at_a_temperature_includes_the_noise() -> None:
    target, policy = ToyTarget(salt=2), replace(GREEDY, temperature=1.0)
    block, after = visits(target, policy)[0]
    (new,) = [i for i in masked(START) if after[i] != MASK]
    logits = target.law(PROMPT[:SIZE], START)
    logits[:, VOCABULARY - 1] = -math.inf
    others = [token for token in range(VOCABULARY - 1) if token != after[new]]
    gaps = {token: divergence(target, fill(START, [new], [token]), policy).token_gap for token in others}
    logits[:, after[new]] = -math.inf
    without_best = predict(logits, START, policy, SEED, block)
    assert min(gaps, key=lambda token: gaps[token]) == without_best.tokens[without_best.positions.index(new)]
    assert all(0 < gap < math.inf for gap in gaps.values())


NEAR = fixed([0.0, 0.9, 0.1], [0.0, 0.900001, 0.099999], [0.0, 0.899999, 0.100001], [0.0, 0.6, 0.4])
"""Positions 1 and 2 stand either side of 0.9, within the tolerance of float32."""


@pytest.mark.parametrize(
    ("what", "first", "tie"),
    [
        ("both pass", (1, 1, 1, MASK), True),
        ("neither passes, the other is the surest", (1, MASK, 1, MASK), True),
        ("a third passes too", (1, 1, 1, 1), False),
        ("only a third passes", (1, MASK, MASK, 1), False),
    ],
)
def test_confidences_at_the_threshold_are_ties(what: str, first: State, tie: bool) -> None:
    policy = replace(GREEDY, rule=Threshold(0.9))
    assert visits(NEAR, policy)[0] == (1, (1, 1, MASK, MASK))
    assert divergence(NEAR, first, policy).tie is tie, what


def test_two_tied_positions_below_the_threshold_commit_one_at_a_time() -> None:
    policy = replace(GREEDY, rule=Threshold(0.95))
    assert divergence(TIED, (1, MASK, 1, MASK), policy).tie
    assert not divergence(TIED, (1, 1, 1, MASK), policy).tie


def test_a_skipped_part_of_a_threshold_step_is_a_bug() -> None:
    policy = replace(GREEDY, rule=Threshold(0.5))
    assert visits(TIED, policy)[0] == (1, (1, 1, 1, 1))
    found = divergence(TIED, (1, 1, 1, MASK), policy)
    assert not found.tie
    assert found.confidence_gap == pytest.approx(0.1, abs=1e-6)


def test_the_tolerance_is_that_of_the_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    close = fixed([0.0, 0.9, 0.1], [0.0, 0.9, 0.1], [0.0, 0.85, 0.15], [0.0, 0.6, 0.4])
    swapped = (1, MASK, 1, MASK)
    assert not divergence(close, swapped).tie
    monkeypatch.setattr(ToyTarget, "dtype", "bfloat16")
    assert divergence(close, swapped).tie
    assert list(TOLERANCE.values()) == sorted(TOLERANCE.values())


def test_the_rule_of_the_policy_decides() -> None:
    both = (1, 1, 1, MASK)
    assert visits(TIED, replace(GREEDY, rule=Threshold(0.7)))[0] == (1, both)
    assert not divergence(TIED, both, replace(GREEDY, rule=Exact())).tie


def nearly_tied_draw(lead: float) -> tuple[Uniform, int, int]:
    """A target whose position 1 draws from two tokens with near-equal scores at T = 1; the others draw at even odds.

    Then the one that the noise favours, whose score leads by `lead` and whose confidence is below even; and the one
    that the law favours, whose confidence is above.
    """
    noise = gumbel(step_key(SEED, 1, 1), torch.tensor(1), torch.arange(3)).tolist()
    by_noise, by_law = (1, 2) if noise[1] > noise[2] else (2, 1)
    logits = torch.tensor([[-math.inf, 0.0, 0.0]]).repeat(SIZE, 1)
    logits[1, by_law] = noise[by_noise] - noise[by_law] - lead
    return Uniform(logits), by_noise, by_law


@pytest.mark.parametrize(("lead", "tie"), [(1e-6, True), (1e-2, False)])
def test_a_near_tied_token_that_makes_its_position_the_surest_is_a_tie(lead: float, tie: bool) -> None:
    """With noise, tokens of equal score differ in confidence: which one is drawn decides where a commit is due."""
    policy = replace(GREEDY, temperature=1.0)
    target, _, by_law = nearly_tied_draw(lead)
    assert visits(target, policy)[0][1][1] == MASK, "the less sure token is drawn, and another position commits"
    assert divergence(target, (1, by_law, MASK, MASK), policy).tie is tie


@pytest.mark.parametrize(("lead", "tie"), [(-1e-6, True), (-1e-2, False)])
def test_a_near_tied_token_that_makes_its_position_less_sure_is_a_tie(lead: float, tie: bool) -> None:
    policy = replace(GREEDY, temperature=1.0)
    target, by_noise, by_law = nearly_tied_draw(lead)
    assert visits(target, policy)[0] == (1, (1, by_law, MASK, MASK))
    second = predict(target.law(PROMPT[:SIZE], START)[:, :3], START, policy, SEED, 1).tokens[1]
    assert divergence(target, (1, MASK, second, MASK), policy).tie is tie
    unsure = divergence(target, (1, by_noise, MASK, MASK), policy)
    assert not unsure.tie, "neither draw makes this token the one to commit"
    assert unsure.confidence_gap > 0.01


def test_one_wrong_token_among_right_ones_is_a_bug() -> None:
    """Even where it is as likely as the right one, and only the noise tells them apart."""
    even = fixed(*[[0.0, 0.5, 0.5]] * SIZE)
    policy = replace(GREEDY, rule=Threshold(0.3), temperature=1.0)
    right = visits(even, policy)[0][1]
    assert MASK not in right
    for i in range(1, SIZE):
        assert not divergence(even, fill(right, [i], [3 - right[i]]), policy).tie


def test_gaps_are_those_of_the_request_that_was_decoded() -> None:
    """Late in a decode with noise, so that another seed would have led elsewhere long before."""
    target, policy = ToyTarget(salt=7), replace(GREEDY, temperature=1.0)
    baseline = visits(target, policy)
    at = len(baseline) - 1
    block, after = baseline[at]
    before = baseline[at - 1][1]
    (last,) = masked(before)
    blocks = {visited: state for visited, state in baseline if visited < block}
    context = [*PROMPT[:SIZE], *(token for state in blocks.values() for token in state)]
    score = target.law(context, before)[last, : VOCABULARY - 1].double()
    score += gumbel(step_key(SEED, block, SIZE - 1), torch.tensor(last), torch.arange(VOCABULARY - 1))
    assert int(score.argmax()) == after[last]
    for token in range(VOCABULARY - 1):
        if token != after[last]:
            method = [*baseline[:at], (block, fill(before, [last], [token]))]
            found = diverge(target, PROMPT, policy, SEED, baseline, method)
            assert found.token_gap == pytest.approx(float(score.max() - score[token]), abs=1e-5)
            assert (found.block, found.position, found.tie) == (block, last, False)
