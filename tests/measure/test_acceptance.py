"""Acceptance and stale statistics on figures that can be worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import drafters
from suite.decoding.decode import decode
from suite.decoding.policy import Policy
from suite.measure.acceptance import acceptance
from suite.measure.stale import StaleWatch
from tests.toy import SIZE, ToyTarget


def test_acceptance_by_depth() -> None:
    found = acceptance([[0, 2, 1], [0]])
    assert found.marginal == (0.5, 0.25)
    assert found.conditional == (0.5, 0.5)
    assert found.steps_per_pass == 1.75
    assert found.steps_per_pass_by_request == 1.5
    assert found.consistent


@given(st.lists(st.lists(st.integers(0, 9), min_size=1), min_size=1))
def test_acceptance_is_consistent_and_monotone(depths: list[list[int]]) -> None:
    found = acceptance(depths)
    assert found.consistent
    assert list(found.marginal) == sorted(found.marginal, reverse=True)
    assert math.prod(found.conditional) == pytest.approx(found.marginal[-1] if found.marginal else 1)


def test_a_law_that_ignores_the_state_is_never_stale() -> None:
    for temperature in (0.0, 1.0):
        policy = Policy(SIZE, 12, temperature=temperature)
        watch = StaleWatch(policy, seed=3)
        target = ToyTarget(smooth=1.0, salt=2)
        done = decode(target, [1, 2, 3, 4, 1], policy, drafters.make("none"), seed=3, watch=watch)
        blocks = len({block for block, _ in done.visits})
        assert watch.counts.steps == watch.counts.commits == len(done.visits) - blocks
        assert watch.counts.tokens == watch.counts.choices == watch.counts.steps
    changing = StaleWatch(Policy(SIZE, 12), seed=3)
    decode(ToyTarget(smooth=0.0), [], Policy(SIZE, 12), drafters.make("none"), seed=3, watch=changing)
    assert changing.counts.tokens < changing.counts.steps
