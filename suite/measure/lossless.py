"""Losslessness, checked: where a method left the baseline, and how close the baseline's own decision was."""

import math
from collections.abc import Sequence

from torch import Tensor

from drafters.bounds import NoDrafts
from suite.decoding.decode import decode
from suite.decoding.policy import Policy, Prediction, scores
from suite.decoding.state import MASK, State, Visit
from suite.records import Divergence
from suite.targets.base import Target

TOLERANCE = {"float64": 1e-9, "float32": 1e-5, "float16": 2**-6, "bfloat16": 2**-3}
"""Gaps up to this are numeric ties: log-probabilities and confidences of one state, computed in two shapes."""


def diverge(
    target: Target,
    prompt: Sequence[int],
    policy: Policy,
    seed: int,
    baseline: Sequence[Visit],
    method: Sequence[Visit],
) -> Divergence:
    """The first difference between two decodes of `prompt`. Decodes the baseline once more to see its gaps."""
    at = next(
        (n for n, (mine, other) in enumerate(zip(baseline, method, strict=False)) if mine != other),
        min(len(baseline), len(method)),
    )
    seen: list[tuple[State, Prediction, Tensor]] = []

    def watch(state: State, prediction: Prediction, after: State, logits: Tensor) -> None:
        seen.append((state, prediction, logits))

    decode(target, prompt, policy, NoDrafts(), seed=seed, watch=watch)
    if at >= min(len(baseline), len(method), len(seen)):  # one stopped earlier: no numeric reason for that
        return Divergence(baseline[-1][0] + 1, 0, 0, math.inf, math.inf, tie=False)
    block, mine = baseline[at]
    other_block, other = method[at]
    state, prediction, logits = seen[at]
    positions, _, score = scores(logits, state, policy, seed, block)
    token_gap = confidence_gap = 0.0
    where = [i for i, (a, b) in enumerate(zip(mine, other, strict=True)) if a != b]
    for i in where:
        if i not in positions or block != other_block:
            token_gap = math.inf
        elif MASK in (mine[i], other[i]):
            confidence_gap = max(confidence_gap, policy.rule.gap(prediction.confidences, positions.index(i)))
        else:
            row = score[positions.index(i)]
            token_gap = max(token_gap, float(row[mine[i]] - row[other[i]]))
    step = sum(visited == block for visited, _ in baseline[:at])
    tie = max(token_gap, confidence_gap) <= TOLERANCE[target.dtype]
    return Divergence(block, step, where[0] if where else 0, token_gap, confidence_gap, tie)
