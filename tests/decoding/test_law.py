"""The sequential sampler has the law of an ordinary one: filter, multinomial, commit by confidence.

The reference is written anew here, in numpy with its own generator.
"""

from itertools import product

import numpy as np
import pytest
from scipy import stats

import drafters
from suite.decoding import policy as policies
from suite.decoding.decode import decode
from suite.decoding.noise import step_key
from suite.decoding.policy import Policy
from tests.toy import ToyTarget

SIZE, TOKENS, DRAWS = 3, 3, 4000


class Tiny(ToyTarget):
    """Three positions, three tokens, laws that depend on the state; no token ends."""

    def __init__(self) -> None:
        super().__init__(sharpness=1.5, size=SIZE, vocabulary=TOKENS + 1, salt=1)


def reference(target: Tiny, policy: Policy, rng: np.random.Generator) -> tuple[int, ...]:
    state = [-1] * SIZE
    while -1 in state:
        logits = target.law([], tuple(state))[:, :TOKENS].double().numpy()
        drawn, confidence = {}, {}
        for i in (i for i in range(SIZE) if state[i] == -1):
            p = np.exp(logits[i] / policy.temperature)
            p /= p.sum()
            q = p.copy()
            order = np.argsort(-q)
            if policy.top_k:
                q[order[policy.top_k :]] = 0
                q /= q.sum()
            if policy.top_p < 1:
                reached = np.cumsum(q[order])
                q[order[1:][reached[:-1] >= policy.top_p]] = 0
            drawn[i] = int(rng.choice(TOKENS, p=q / q.sum()))
            confidence[i] = p[drawn[i]]
        best = max(confidence, key=lambda i: (confidence[i], -i))
        state[best] = drawn[best]
    return tuple(state)


def p_value(policy: Policy) -> float:
    """Of a chi-square test between DRAWS answers of each sampler."""
    target, rng, plain = Tiny(), np.random.default_rng(0), drafters.make("none")
    ours = [decode(target, [], policy, plain, seed=seed).visits[-1][1] for seed in range(DRAWS)]
    theirs = [reference(target, policy, rng) for _ in range(DRAWS)]
    cells = [(ours.count(x), theirs.count(x)) for x in product(range(TOKENS), repeat=SIZE)]
    table = np.array([cell for cell in cells if sum(cell) >= 10]).T
    return float(stats.chi2_contingency(table).pvalue)


@pytest.mark.parametrize(
    "policy",
    [
        Policy(SIZE, SIZE, temperature=1.0),
        Policy(SIZE, SIZE, temperature=0.7),
        Policy(SIZE, SIZE, temperature=1.0, top_k=2),
        Policy(SIZE, SIZE, temperature=1.0, top_p=0.7),
        Policy(SIZE, SIZE, temperature=1.3, top_k=2, top_p=0.6),
    ],
    ids=str,
)
def test_the_law_is_the_ordinary_samplers(policy: Policy) -> None:
    assert p_value(policy) > 0.001


def test_negative_noise_frozen_over_the_steps_changes_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "step_key", lambda seed, block, committed: step_key(seed, block, 0))
    assert p_value(Policy(SIZE, SIZE, temperature=1.0)) < 1e-6
