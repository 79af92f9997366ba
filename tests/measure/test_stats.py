"""Paired ratios and means with bootstrap intervals."""

import math

import numpy as np
import pytest

from suite.measure.stats import Interval, mean, pooled_ratio, ratio


def synthetic(seed: int, size: int = 60, truth: float = 1.7) -> tuple[list[float], list[float]]:
    """Times of prompts that differ a hundredfold, the second method `truth` times faster on the geometric mean."""
    rng = np.random.default_rng(seed)
    slow = np.exp(rng.normal(0, 2, size))
    return slow.tolist(), (slow / truth * np.exp(rng.normal(0, 0.3, size))).tolist()


def test_the_interval_contains_the_truth_about_as_often_as_it_says() -> None:
    hits = 0
    for seed in range(100):
        interval = ratio(*synthetic(seed))
        hits += interval.low <= 1.7 <= interval.high
    assert 85 <= hits <= 99


def test_pairing_makes_the_interval_narrow() -> None:
    slow, fast = synthetic(0)
    paired, crossed = ratio(slow, fast), ratio(slow, fast[::-1])
    assert paired.value == pytest.approx(crossed.value)
    assert (paired.high / paired.low - 1) < 0.2 < (crossed.high / crossed.low - 1)


def test_the_value_is_the_geometric_mean_and_lies_inside() -> None:
    interval = ratio([2.0, 8.0, 4.0], [1.0, 1.0, 2.0])
    assert interval.value == pytest.approx(math.prod([2.0, 8.0, 2.0]) ** (1 / 3))
    assert interval.low <= interval.value <= interval.high
    assert interval.low >= 2.0
    assert interval.high <= 8.0 + 1e-9


def test_equal_methods_have_a_ratio_of_exactly_one() -> None:
    times = synthetic(3)[0]
    assert ratio(times, times) == Interval(1.0, 1.0, 1.0)


def test_swapping_the_methods_inverts_the_ratio() -> None:
    slow, fast = synthetic(5)
    there, back = ratio(slow, fast), ratio(fast, slow)
    assert back.value == pytest.approx(1 / there.value)
    assert (back.low, back.high) == (pytest.approx(1 / there.high, rel=0.05), pytest.approx(1 / there.low, rel=0.05))


def test_more_prompts_give_a_narrower_interval() -> None:
    few, many = ratio(*synthetic(7, size=30)), ratio(*synthetic(7, size=480))
    assert math.log(many.high / many.low) < 0.5 * math.log(few.high / few.low)


def test_groups_keep_their_share_in_every_resample() -> None:
    """Differences between the groups are no uncertainty; differences within them are."""
    groups = ["easy"] * 10 + ["hard"] * 20
    numerators = [1.0] * 10 + [100.0] * 20
    ones = [1.0] * 30
    stratified, plain = ratio(numerators, ones, groups), ratio(numerators, ones)
    assert stratified.value == pytest.approx(plain.value)
    assert stratified.low == pytest.approx(stratified.high)
    assert plain.high / plain.low > 3
    varied = ratio([1.0, 2.0] * 5 + [100.0] * 20, ones, groups)
    assert varied.high / varied.low > 1.05


def test_the_same_data_gives_the_same_interval() -> None:
    assert ratio(*synthetic(9)) == ratio(*synthetic(9))


def test_a_pooled_ratio_lets_long_answers_weigh_more() -> None:
    assert pooled_ratio([100.0, 1.0], [50.0, 1.0]) == pytest.approx(101 / 51)


def test_a_mean_has_an_interval_around_it() -> None:
    interval = mean([0.0, 1.0] * 50)
    assert interval.value == 0.5
    assert 0.35 < interval.low < 0.45 < 0.55 < interval.high < 0.65
    assert mean([0.25] * 9) == Interval(0.25, pytest.approx(0.25), pytest.approx(0.25))


def test_one_prompt_has_no_spread() -> None:
    assert ratio([3.0], [2.0]) == Interval(pytest.approx(1.5), pytest.approx(1.5), pytest.approx(1.5))


@pytest.mark.parametrize("figure", [lambda: ratio([], []), lambda: mean([])])
def test_no_prompts_are_an_error(figure: object) -> None:
    with pytest.raises(ValueError, match="no prompts"):
        figure()  # type: ignore[operator]


def test_the_interval_is_as_wide_as_the_normal_one_of_95_percent() -> None:
    values = np.random.default_rng(1).normal(5, 2, 400)
    interval = mean(values.tolist())
    half_width = (interval.high - interval.low) / 2 / (values.std() / 400**0.5)
    assert half_width == pytest.approx(1.96, rel=0.06)
