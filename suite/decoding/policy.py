"""The decoder as a deterministic function: what one step commits, given logits, state and noise.

A `Policy` names everything that decides the emitted tokens besides the target.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from suite.decoding.noise import gumbel, step_key
from suite.decoding.rules import CommitRule, Exact
from suite.decoding.state import State, fill, masked
from suite.errors import UserError

Confidence = Literal["tempered", "untempered"]
"""Which distribution a token's confidence is read from: softmax(l / T) (SDAR), or softmax(l) (LLaDA)."""

Commit = Literal["fused", "separate"]
"""A finished block's pass into the cache rides in the next block's first pass, or is one of its own."""

ContextPolicy = Literal["cached", "whole", "frozen", "prefix"]
"""What a block sees of the rest: an exact cache of what precedes it, or (full attention) everything evaluated anew,
everything as its first pass left it, or what precedes it so."""


@dataclass(frozen=True)
class Policy:
    """The reference policy that "lossless" refers to. Every method commits finished blocks alike."""

    block_size: int
    max_new_tokens: int
    rule: CommitRule = field(default_factory=Exact)
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    confidence: Confidence = "tempered"
    commit: Commit = "fused"

    def __post_init__(self) -> None:
        if self.temperature < 0 or not math.isfinite(self.temperature):
            raise UserError(f"temperature {self.temperature}: it must be 0 or more")
        if not 0 < self.top_p <= 1 or self.top_k < 0:
            raise UserError(f"top_k {self.top_k}, top_p {self.top_p}: top_k must be 0 or more, top_p in (0, 1]")


@dataclass(frozen=True)
class Prediction:
    """What the target says at the masked positions of one state, in their order.

    Only for a rule that asks for them, of the tempered, unfiltered distributions, in nats: `entropies`; `drifts`, the
    largest KL divergence of one pass from the pass before it over the rule's memory, infinite while that is not full.
    """

    positions: list[int]
    tokens: list[int]
    confidences: list[float]
    entropies: Sequence[float] = ()
    drifts: Sequence[float] = ()


def log_probs(logits: Tensor, temperature: float) -> Tensor:
    """log_softmax of `logits / T` over the last axis, of `logits` at T = 0; float32."""
    return (logits.float() / (temperature or 1.0)).log_softmax(-1)


@dataclass(frozen=True)
class Scored:
    """The target's view of the masked positions of a state, `[n, V]` each.

    A token is drawn by taking the argmax of `scores` (log-probabilities, with filters and noise at T > 0: the law
    of filter, then multinomial); its confidence is its entry in `confidences`. `log_probs`: tempered.
    """

    positions: list[int]
    scores: Tensor
    confidences: Tensor
    log_probs: Tensor


def score(logits: Tensor, state: State, policy: Policy, seed: int, block: int) -> Scored:
    """Args: `logits` `[B, V]`; excluded tokens hold -inf."""
    positions = masked(state)
    logits = logits[positions]
    scores = logp = tempered = log_probs(logits, policy.temperature)
    if policy.temperature > 0:
        key = step_key(seed, block, len(state) - len(positions))
        where = torch.tensor(positions, device=logits.device)[:, None]
        tokens = torch.arange(logits.shape[-1], device=logits.device)
        scores = filtered(logp, policy).double() + gumbel(key, where, tokens)
    if policy.confidence == "untempered":
        logp = log_probs(logits, 0.0)
    return Scored(positions, scores, logp.exp(), tempered)


def predict(
    logits: Tensor, state: State, policy: Policy, seed: int, block: int, earlier: Sequence[Tensor] = ()
) -> Prediction:
    """Token and confidence at every masked position of `state`, and what else the rule asks for.

    Args:
        earlier: logits `[B, V]` of the block's passes before this one, oldest first, as far as the rule remembers.

    Raises FloatingPointError on logits that are not numbers.
    """
    scored = score(logits, state, policy, seed, block)
    best = first_argmax(scored.scores)
    confidence = scored.confidences.gather(-1, best[:, None])[:, 0]
    return Prediction(
        scored.positions,
        best.tolist(),
        confidence.tolist(),
        entropies(scored.log_probs).tolist() if policy.rule.needs_entropies else (),
        _drifts(scored, policy, earlier) if policy.rule.memory else (),
    )


def chosen(prediction: Prediction, rule: CommitRule) -> list[int]:
    """Which of the prediction's positions the rule commits, as indices into them."""
    return rule.choose(prediction.confidences, prediction.entropies, prediction.drifts)


def step(prediction: Prediction, state: State, rule: CommitRule) -> State:
    """The next state."""
    picked = chosen(prediction, rule)
    return fill(state, [prediction.positions[n] for n in picked], [prediction.tokens[n] for n in picked])


def filtered(logp: Tensor, policy: Policy) -> Tensor:
    """`logp` `[n, V]` with -inf where top-k, then top-p, drop a token; the token that crosses p stays."""
    if not policy.top_k and policy.top_p == 1:
        return logp
    ranked, order = logp.sort(dim=-1, descending=True, stable=True)  # stable: the lower id first on a tie
    return logp.scatter(-1, order, ranked.masked_fill(~kept(ranked, policy), -math.inf))


def kept(ranked: Tensor, policy: Policy) -> Tensor:
    """Which of the log-probabilities `[n, k]`, sorted descending, pass top-k and top-p."""
    keep = torch.ones_like(ranked, dtype=torch.bool)
    if policy.top_k:
        keep[:, policy.top_k :] = False
    if policy.top_p < 1:
        p = ranked.masked_fill(~keep, -math.inf).softmax(-1) if policy.top_k else ranked.exp()
        keep &= p.cumsum(-1) - p < policy.top_p
    return keep


def first_argmax(scores: Tensor) -> Tensor:
    """Index of the largest score along the last axis, the lowest index on a tie."""
    best = scores == scores.amax(-1, keepdim=True)
    width = scores.shape[-1]
    index = torch.where(best, torch.arange(width, device=scores.device), width).amin(-1)
    if bool((index == width).any()):
        raise FloatingPointError("the target's logits are not numbers (NaN)")
    return index


def entropies(logp: Tensor) -> Tensor:
    """Of each row of log-probabilities `[n, V]`, in nats."""
    entropy: Tensor = torch.special.entr(logp.exp()).sum(-1)
    return entropy


def divergences(logp: Tensor, other: Tensor) -> Tensor:
    """KL(p || q) of each row of log-probabilities `[n, V]`, in nats; both exclude the same tokens."""
    p = logp.exp()
    return (p * (logp - other)).masked_fill(p == 0, 0.0).sum(-1)


def _drifts(scored: Scored, policy: Policy, earlier: Sequence[Tensor]) -> list[float]:
    if len(earlier) < policy.rule.memory:
        return [math.inf] * len(scored.positions)
    laws = [*(log_probs(logits[scored.positions], policy.temperature) for logits in earlier), scored.log_probs]
    steps = [divergences(now, before) for before, now in pairwise(laws[-policy.rule.memory - 1 :])]
    drifts: list[float] = torch.stack(steps).amax(0).tolist()
    return drifts
