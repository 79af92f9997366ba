"""The decoder as a deterministic function: what one step commits, given logits, state and noise.

A `Policy` names everything that decides the emitted tokens besides the target.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, Protocol

import torch
from torch import Tensor

from suite.decoding.noise import gumbel, step_key
from suite.decoding.state import State, fill, masked
from suite.errors import UserError

Confidence = Literal["tempered", "untempered"]
"""Which distribution a token's confidence is read from: softmax(l / T) (SDAR), or softmax(l) (LLaDA)."""

Commit = Literal["fused", "separate"]
"""A finished block's pass into the cache rides in the next block's first pass, or is one of its own."""

ContextPolicy = Literal["cached", "whole", "frozen", "prefix"]
"""What a block sees of the rest: an exact cache of what precedes it, or (full attention) everything evaluated anew,
everything as its first pass left it, or what precedes it so."""


class CommitRule(Protocol):
    """Which of the masked positions commit, given their confidences (same order; at least one)."""

    def choose(self, confidences: Sequence[float]) -> list[int]:
        """Indices into `confidences`, ascending, never empty."""
        ...

    def gap(self, confidences: Sequence[float], chosen: Sequence[int]) -> float:
        """How far some confidence would have to move for `chosen` to be chosen; 0 for the choice and its ties."""
        ...


@dataclass(frozen=True)
class Exact:
    """The most confident position, the lower one on a tie."""

    def choose(self, confidences: Sequence[float]) -> list[int]:
        return [max(range(len(confidences)), key=lambda n: (confidences[n], -n))]

    def gap(self, confidences: Sequence[float], chosen: Sequence[int]) -> float:
        return max(confidences) - confidences[chosen[0]] if len(chosen) == 1 else math.inf

    def __str__(self) -> str:
        return "exact"


@dataclass(frozen=True)
class Threshold:
    """Every position whose confidence exceeds tau; the exact choice if there is none."""

    tau: float

    def __post_init__(self) -> None:
        if not 0 < self.tau < 1:
            raise UserError(f"threshold({self.tau}): tau must lie strictly between 0 and 1")

    def choose(self, confidences: Sequence[float]) -> list[int]:
        return [n for n, c in enumerate(confidences) if c > self.tau] or Exact().choose(confidences)

    def gap(self, confidences: Sequence[float], chosen: Sequence[int]) -> float:
        above = [c - self.tau for n, c in enumerate(confidences) if n not in chosen]
        below = [self.tau - confidences[n] for n in chosen]
        as_set = max(0.0, *above, *below) if chosen else math.inf
        as_fallback = max(Exact().gap(confidences, chosen), max(confidences) - self.tau)
        return min(as_set, as_fallback)

    def __str__(self) -> str:
        return f"threshold({Decimal(repr(self.tau)):f})"  # reads back as the same number


def parse_rule(text: str) -> CommitRule:
    """`exact` or `threshold(tau)`. Raises UserError."""
    if text == "exact":
        return Exact()
    if match := re.fullmatch(r"threshold\((\d*\.?\d+)\)", text):
        return Threshold(float(match[1]))
    raise UserError(f"unknown commit rule {text!r}; write 'exact' or 'threshold(0.9)'")


@dataclass(frozen=True)
class Policy:
    """The reference policy that "lossless" refers to. Every method commits finished blocks alike."""

    block_size: int
    max_new_tokens: int
    rule: CommitRule = Exact()
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
    """What the target says at the masked positions of one state, in their order."""

    positions: list[int]
    tokens: list[int]
    confidences: list[float]


def log_probs(logits: Tensor, temperature: float) -> Tensor:
    """log_softmax of `logits / T` over the last axis, of `logits` at T = 0; float32."""
    return (logits.float() / (temperature or 1.0)).log_softmax(-1)


@dataclass(frozen=True)
class Scored:
    """The target's view of the masked positions of a state, `[n, V]` each.

    A token is drawn by taking the argmax of `scores` (log-probabilities, with filters and noise at T > 0: the law
    of filter, then multinomial); its confidence is its entry in `confidences`.
    """

    positions: list[int]
    scores: Tensor
    confidences: Tensor


def score(logits: Tensor, state: State, policy: Policy, seed: int, block: int) -> Scored:
    """Args: `logits` `[B, V]`; excluded tokens hold -inf."""
    positions = masked(state)
    logits = logits[positions]
    scores = logp = log_probs(logits, policy.temperature)
    if policy.temperature > 0:
        key = step_key(seed, block, len(state) - len(positions))
        where = torch.tensor(positions, device=logits.device)[:, None]
        tokens = torch.arange(logits.shape[-1], device=logits.device)
        scores = filtered(logp, policy).double() + gumbel(key, where, tokens)
    if policy.confidence == "untempered":
        logp = log_probs(logits, 0.0)
    return Scored(positions, scores, logp.exp())


def predict(logits: Tensor, state: State, policy: Policy, seed: int, block: int) -> Prediction:
    """Token and confidence at every masked position of `state`.

    Raises FloatingPointError on logits that are not numbers.
    """
    scored = score(logits, state, policy, seed, block)
    best = first_argmax(scored.scores)
    confidence = scored.confidences.gather(-1, best[:, None])[:, 0]
    return Prediction(scored.positions, best.tolist(), confidence.tolist())


def step(prediction: Prediction, state: State, rule: CommitRule) -> State:
    """The next state."""
    picked = rule.choose(prediction.confidences)
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
