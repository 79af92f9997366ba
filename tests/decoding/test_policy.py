"""Commit rules, filters and ties, as the specification words them."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from suite.decoding.policy import Policy, filtered, first_argmax, predict, step
from suite.decoding.rules import Exact, Threshold, parse_rule
from suite.decoding.state import MASK, until_end
from suite.errors import UserError


def test_exact_takes_the_most_confident_position_the_lower_one_on_a_tie() -> None:
    assert Exact().choose([0.2, 0.9, 0.9]) == [1]
    assert Exact().choose([1.0, 1.0, 1.0]) == [0]
    assert Exact().gap([0.2, 0.9, 0.8], [1]) == 0
    assert Exact().gap([0.2, 0.9, 0.8], [0]) == pytest.approx(0.7)
    assert Exact().gap([0.9, 0.9], [0, 1]) == math.inf


def test_threshold_takes_all_above_tau_and_one_if_none_is() -> None:
    assert Threshold(0.5).choose([0.6, 0.5, 0.51]) == [0, 2]
    assert Threshold(0.9).choose([0.6, 0.5, 0.6]) == [0]
    assert Threshold(0.5).gap([0.6, 0.48], [0]) == 0
    assert Threshold(0.5).gap([0.6, 0.48], [0, 1]) == pytest.approx(0.02)
    assert Threshold(0.5).gap([0.6, 0.48], []) == math.inf
    assert Threshold(0.9).gap([0.6, 0.59], [1]) == pytest.approx(0.01), "the fallback's order is the closer decision"


@pytest.mark.parametrize("text", ["exact", "threshold(0.9)"])
def test_a_rule_has_one_text(text: str) -> None:
    assert str(parse_rule(text)) == text
    assert str(parse_rule("threshold(.90)")) == "threshold(0.9)"


@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_a_threshold_survives_its_own_text(tau: float) -> None:
    assert parse_rule(str(Threshold(tau))) == Threshold(tau)


@pytest.mark.parametrize(
    "text", ["threshold(0)", "threshold(1)", "threshold(1.5)", "threshold", "greedy", "threshold(-0.1)"]
)
def test_a_rule_that_is_none_is_one_line(text: str) -> None:
    with pytest.raises(UserError) as error:
        parse_rule(text)
    assert "\n" not in str(error.value)


def test_ties_go_to_the_lower_token_and_nan_is_an_error() -> None:
    scores = torch.tensor([[0.0, 2.0, 2.0], [1.0, 1.0, 1.0], [-math.inf, -math.inf, 0.0]])
    assert first_argmax(scores).tolist() == [1, 0, 2]
    with pytest.raises(FloatingPointError, match="NaN"):
        first_argmax(torch.tensor([[0.0, math.nan]]))


def test_filters_keep_the_token_that_crosses_p_and_the_lower_id_on_a_tie() -> None:
    logp = torch.tensor([[0.1, 0.4, 0.1, 0.4]]).log()
    kept = lambda **options: filtered(logp, Policy(1, 1, temperature=1, **options)).isfinite()[0].tolist()  # noqa: E731
    assert kept() == [True] * 4
    assert kept(top_k=1) == [False, True, False, False]
    assert kept(top_k=3) == [True, True, False, True]
    assert kept(top_p=0.3) == [False, True, False, False]
    assert kept(top_p=0.5) == [False, True, False, True]
    assert kept(top_k=2, top_p=0.45) == [False, True, False, False], "top-p sees what top-k left, made to sum to 1"


def test_confidence_is_read_before_filters_from_the_familys_own_distribution() -> None:
    logits = torch.tensor([[2.0, 0.0], [3.0, 0.0]])
    tempered = predict(logits, (MASK, MASK), Policy(2, 2, temperature=2.0, top_k=1), seed=0, block=0)
    assert tempered.tokens == [0, 0]
    assert tempered.confidences == pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.exp(-1.5))])
    untempered = predict(logits, (MASK, MASK), Policy(2, 2, temperature=2.0, top_k=1, confidence="untempered"), 0, 0)
    assert untempered.confidences == pytest.approx([1 / (1 + math.exp(-2)), 1 / (1 + math.exp(-3))])


def test_committed_positions_are_never_touched() -> None:
    logits = torch.tensor([[9.0, 0.0], [0.0, 1.0], [0.5, 0.0]])
    state = (1, MASK, MASK)
    prediction = predict(logits, state, Policy(3, 3), seed=0, block=0)
    assert prediction.positions == [1, 2]
    assert step(prediction, state, Exact()) == (1, 1, MASK)


def test_tokens_are_counted_up_to_the_first_end_token() -> None:
    stops = frozenset({7, 8})
    assert until_end([1, 2, 8, 7, 3], stops) == ((1, 2, 8), True)
    assert until_end([7], stops) == ((7,), True)
    assert until_end([1, 2], stops) == ((1, 2), False)
    assert until_end([], stops) == ((), False)


@pytest.mark.parametrize("options", [{"temperature": -1.0}, {"temperature": math.inf}, {"top_p": 0.0}, {"top_k": -1}])
def test_a_policy_that_cannot_be_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(UserError):
        Policy(4, 4, **options)  # type: ignore[arg-type]
