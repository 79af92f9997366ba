"""Losslessness, checked: where a method left the baseline, and how close the baseline's own decision was."""

import math
from collections.abc import Sequence

from torch import Tensor

from drafters.bounds import NoDrafts
from suite.decoding.decode import decode
from suite.decoding.policy import Policy, Prediction, score
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
    seen: list[tuple[State, Tensor]] = []

    def watch(block: int, state: State, prediction: Prediction, after: State, logits: Tensor) -> None:
        seen.append((state, logits))

    decode(target, prompt, policy, NoDrafts(), seed=seed, watch=watch)
    if at >= min(len(baseline), len(method), len(seen)):  # one stopped earlier: no numeric reason for that
        return Divergence(baseline[-1][0] + 1, 0, 0, math.inf, math.inf, tie=False)
    block, mine = baseline[at]
    other_block, other = method[at]
    state, logits = seen[at]
    other = other[: len(state)]
    tolerance = TOLERANCE[target.dtype]
    token_gap, confidence_gap = math.inf, math.inf
    if block == other_block and all(old in (MASK, new) for old, new in zip(state, other, strict=True)):
        scored = score(logits, state, policy, seed, block)
        best, drawn = scored.scores.amax(-1, keepdim=True), [other[i] for i in scored.positions]
        committed = [n for n, token in enumerate(drawn) if token != MASK]
        leads = [float(best[n, 0] - scored.scores[n, drawn[n]]) for n in committed]
        token_gap = max(leads, default=math.inf)
        # With noise, tokens of near-equal score differ in confidence. So the method's own tokens count where it
        # committed, and elsewhere the least sure token that it could have drawn.
        near = scored.scores >= best - tolerance
        confidences = scored.confidences.masked_fill(~near, math.inf).amin(-1).tolist()
        for n in committed:
            confidences[n] = float(scored.confidences[n, drawn[n]])
        confidence_gap = policy.rule.gap(confidences, committed)
    step = sum(visited == block for visited, _ in baseline[:at])
    position = next((i for i, (a, b) in enumerate(zip(mine, other, strict=True)) if a != b), 0)
    tie = max(token_gap, confidence_gap) <= tolerance
    return Divergence(block, step, position, token_gap, confidence_gap, tie)
