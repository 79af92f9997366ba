"""The lossy commit rules: worked by hand, and what holds for every rule."""

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import drafters
from suite.decoding.decode import decode
from suite.decoding.policy import Policy, Prediction, divergences, entropies, predict, step
from suite.decoding.rules import CommitRule, EntropyBounded, Exact, Fixed, Klass, Threshold, parse_rule
from suite.decoding.state import MASK, State
from suite.errors import UserError
from suite.measure.stale import StaleWatch
from tests.toy import SIZE, ToyTarget

shares = st.floats(0, 1, exclude_min=True, exclude_max=True)
finite = st.floats(0, 1e6, exclude_min=True)
rules = st.one_of(
    st.just(Exact()),
    st.builds(Threshold, shares),
    st.builds(Fixed, st.integers(1, 10**8)),
    st.builds(EntropyBounded, st.one_of(st.just(0.0), finite)),
    st.builds(Klass, shares, finite),
)
nats = st.one_of(st.just(0.0), st.floats(0, 9), st.just(math.inf))


def test_fixed_takes_the_n_most_confident_the_lower_ones_on_a_tie() -> None:
    assert Fixed(2).choose([0.2, 0.9, 0.5, 0.7]) == [1, 3]
    assert Fixed(2).choose([0.5, 0.9, 0.5, 0.5]) == [0, 1]
    assert Fixed(4).choose([0.5, 0.9]) == [0, 1], "fewer are left"


def test_fixed_is_as_far_off_as_the_position_it_left_out() -> None:
    assert Fixed(2).gap([0.2, 0.9, 0.5], [1, 2]) == 0
    assert Fixed(2).gap([0.2, 0.9, 0.5], [0, 1]) == pytest.approx(0.3)
    assert Fixed(2).gap([0.5, 0.9, 0.5], [1, 2]) == 0, "a tie"
    assert Fixed(2).gap([0.2, 0.9, 0.5], [1]) == math.inf, "no confidence makes it one position"
    assert Fixed(4).gap([0.2, 0.9], [0, 1]) == 0


def test_eb_takes_positions_while_their_entropies_less_the_largest_stay_in_bounds() -> None:
    """Ascending 0.1, 0.2, 0.3, 0.9: the sums less the largest are 0, 0.1, 0.3, 0.6."""
    seen = [0.9, 0.1, 0.3, 0.2]
    confidences = [0.5] * 4
    assert EntropyBounded(0.0).choose(confidences, seen) == [1]
    assert EntropyBounded(0.05).choose(confidences, seen) == [1]
    assert EntropyBounded(0.1).choose(confidences, seen) == [1, 3]
    assert EntropyBounded(0.29).choose(confidences, seen) == [1, 3]
    assert EntropyBounded(0.35).choose(confidences, seen) == [1, 2, 3]
    assert EntropyBounded(0.7).choose(confidences, seen) == [0, 1, 2, 3]
    assert EntropyBounded(0.0).choose(confidences, [0.4] * 4) == [0], "the lower position on a tie"
    assert EntropyBounded(0.0).choose(confidences, [0.4, 0.0, 0.0, 0.7]) == [0, 1, 2], "what costs nothing comes along"


def test_klass_takes_what_is_sure_and_stable_else_the_exact_choice() -> None:
    rule = Klass(0.9, 0.01)
    assert rule.choose([0.95, 0.99, 0.5, 0.91], (), [0.001, 0.02, 0.0, 0.0]) == [0, 3]
    assert rule.choose([0.9, 0.8], (), [0.0, 0.0]) == [0], "not above c: the most confident one"
    assert rule.choose([0.95, 0.99], (), [0.01, 0.01]) == [1], "not below kl: the most confident one"
    assert rule.choose([0.95, 0.99], (), [math.inf, math.inf]) == [1]


@given(rule=rules, seen=st.lists(st.tuples(st.floats(0, 1), nats, nats), min_size=1, max_size=9))
def test_every_rule_commits_some_of_the_masked_positions(rule: CommitRule, seen: list[tuple[float, ...]]) -> None:
    chosen = rule.choose(*zip(*seen, strict=True))
    assert chosen
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= set(range(len(seen)))


@given(rule=rules)
def test_every_rule_survives_its_own_text(rule: CommitRule) -> None:
    assert parse_rule(str(rule)) == rule


@given(confidences=st.lists(st.sampled_from([0.1, 0.5, 0.9, 1.0]), min_size=1, max_size=9), n=st.integers(1, 9))
def test_the_choice_of_fixed_has_no_gap_and_that_of_one_position_is_the_exact_one(
    confidences: list[float], n: int
) -> None:
    assert Fixed(n).gap(confidences, Fixed(n).choose(confidences)) == 0
    assert Fixed(1).choose(confidences) == Exact().choose(confidences)
    for other in range(len(confidences)):
        assert Fixed(1).gap(confidences, [other]) == Exact().gap(confidences, [other])


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("fixed(2)", "fixed(2)"),
        ("eb(0.10)", "eb(0.1)"),
        ("eb(0)", "eb(0)"),
        ("eb(1.0)", "eb(1)"),
        ("klass(0.9, 0.01)", "klass(0.9,0.01)"),
        ("klass(.6,.015)", "klass(0.6,0.015)"),
    ],
)
def test_a_rule_has_one_text(text: str, canonical: str) -> None:
    assert str(parse_rule(text)) == canonical
    assert str(parse_rule(canonical)) == canonical


WRONG = ["fixed(0)", "fixed(1.5)", "fixed()", "fixed(-1)", "eb", "eb(-0.1)", f"eb({'9' * 400})", "exact()"]
WRONG += ["klass(0.9)", "klass(1,0.1)", "klass(0.9,0)", "klass(0,0.1)", "klass(0.9,0.1,2)"]


@pytest.mark.parametrize("text", WRONG)
def test_a_rule_that_is_none_is_one_line(text: str) -> None:
    with pytest.raises(UserError) as error:
        parse_rule(text)
    assert "\n" not in str(error.value)


def test_entropies_and_divergences_are_in_nats_and_excluded_tokens_count_for_nothing() -> None:
    p = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]).log()
    q = torch.tensor([[0.25, 0.75, 0.0], [0.5, 0.5, 0.0]]).log()
    assert entropies(p).tolist() == pytest.approx([math.log(2), 0.0])
    assert divergences(p, q).tolist() == pytest.approx([0.5 * math.log(2) + 0.5 * math.log(2 / 3), math.log(2)])
    assert divergences(p, p).tolist() == [0.0, 0.0]


def test_a_prediction_carries_what_the_rule_asks_for_of_the_tempered_unfiltered_law() -> None:
    logits, state = torch.tensor([[2.0, 0.0, -math.inf], [9.0, 0.0, -math.inf]]), (MASK, 1)
    plain = predict(logits, state, Policy(2, 2), 0, 0)
    assert (plain.entropies, plain.drifts) == ((), ())
    policy = Policy(2, 2, EntropyBounded(0.1), temperature=2.0, top_k=1)
    p = 1 / (1 + math.exp(-1))
    assert predict(logits, state, policy, 0, 0).entropies == pytest.approx(
        [-p * math.log(p) - (1 - p) * math.log(1 - p)]
    )


def test_drift_is_the_largest_change_over_the_last_two_passes() -> None:
    policy, state = Policy(2, 2, Klass(0.9, 0.01)), (MASK, MASK)

    def law(p: float) -> torch.Tensor:
        return torch.tensor([[p, 1 - p], [0.5, 0.5]]).log()

    def kl(p: float, q: float) -> float:
        return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))

    def drifts(*passes: float) -> Sequence[float]:
        *earlier, now = map(law, passes)
        return predict(now, state, policy, 0, 0, earlier).drifts

    assert drifts(0.9) == drifts(0.9, 0.9) == [math.inf, math.inf], "two earlier passes are wanted"
    assert drifts(0.5, 0.8, 0.9) == pytest.approx([max(kl(0.9, 0.8), kl(0.8, 0.5)), 0.0], abs=1e-6)
    assert drifts(0.8, 0.8, 0.5) == pytest.approx([kl(0.5, 0.8), 0.0], abs=1e-6)
    assert drifts(0.1, 0.8, 0.8, 0.8) == pytest.approx([0.0, 0.0], abs=1e-6), "further back it has forgotten"


targets = st.builds(ToyTarget, sharpness=st.sampled_from([0.0, 1.0, 4.0, 40.0]), salt=st.integers(0, 50))
temperatures = st.sampled_from([0.0, 0.7, 1.0])
prompts = st.lists(st.integers(1, 4), max_size=6)


@settings(max_examples=60)
@given(target=targets, temperature=temperatures, prompt=prompts)
def test_fixed_at_one_is_the_exact_decoder(target: ToyTarget, temperature: float, prompt: list[int]) -> None:
    exact, fixed = (
        decode(target, prompt, Policy(SIZE, 12, rule, temperature), drafters.make("none"), seed=3)
        for rule in (Exact(), Fixed(1))
    )
    assert (exact.tokens, exact.visits) == (fixed.tokens, fixed.visits)


@pytest.mark.parametrize("name", drafters.names())
@settings(max_examples=30)
@given(target=targets, temperature=temperatures, prompt=prompts, n=st.integers(1, 5))
def test_fixed_may_be_drafted_for(name: str, target: ToyTarget, temperature: float, prompt: list[int], n: int) -> None:
    policy = Policy(SIZE, 12, Fixed(n), temperature)
    plain = decode(target, prompt, policy, drafters.make("none"), seed=3)
    drafted = decode(target, prompt, policy, drafters.make(name), 4, seed=3, future=plain.visits)
    assert drafted.visits == plain.visits
    assert len(drafted.passes) <= len(plain.passes)


@settings(max_examples=60)
@given(target=targets, temperature=temperatures, prompt=prompts)
def test_eb_without_leave_commits_one_position_unless_entropies_are_zero(
    target: ToyTarget, temperature: float, prompt: list[int]
) -> None:
    def watch(block: int, state: State, prediction: Prediction, after: State, logits: torch.Tensor) -> None:
        certain = sum(entropy == 0 for entropy in prediction.entropies)
        allowed = min(1 + certain, len(prediction.positions))
        assert state.count(MASK) - after.count(MASK) == allowed

    decode(target, prompt, Policy(SIZE, 12, EntropyBounded(0.0), temperature), drafters.make("none"), watch=watch)


@settings(max_examples=60)
@given(target=targets, temperature=temperatures, prompt=prompts)
def test_klass_commits_nothing_for_its_stability_in_the_first_two_passes_of_a_block(
    target: ToyTarget, temperature: float, prompt: list[int]
) -> None:
    anything = Klass(1e-9, 1e9)  # from the third pass on, whatever is left
    seen: list[tuple[State, State]] = []

    def watch(block: int, state: State, prediction: Prediction, after: State, logits: torch.Tensor) -> None:
        early = math.inf in prediction.drifts
        assert after == step(prediction, state, Exact() if early else Fixed(SIZE))
        seen.append((state, after))

    done = decode(target, prompt, Policy(SIZE, 12, anything, temperature), drafters.make("none"), watch=watch)
    blocks = [block for block, _ in done.visits]
    for block in dict.fromkeys(blocks):
        steps = [step for at, step in zip(blocks, seen, strict=True) if at == block]
        assert [after.count(MASK) - state.count(MASK) for state, after in steps[:2]] == [-1] * len(steps[:2])
        assert len(steps) <= 3


@pytest.mark.parametrize("rule", [EntropyBounded(0.5), Klass(0.2, 5.0), Fixed(2)])
def test_what_stale_passes_knew_is_counted_under_every_rule(rule: CommitRule) -> None:
    """A target that never changes its mind: what the pass before would have done is what is done."""
    target, policy = ToyTarget(smooth=1.0, size=8), Policy(8, 8, rule)
    watch = StaleWatch(policy, 0)
    done = decode(target, [], policy, drafters.make("none"), watch=watch)
    assert watch.counts.steps == len(done.passes) - 1
    assert watch.counts.tokens == watch.counts.commits
    if rule.memory == 0:
        assert watch.counts.choices == watch.counts.steps
