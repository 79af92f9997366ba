"""Paired comparisons over prompts: bootstrap intervals of ratios and means."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

RESAMPLES = 2000


@dataclass(frozen=True)
class Interval:
    """A figure with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


def ratio(numerators: Sequence[float], denominators: Sequence[float], groups: Sequence[str] | None = None) -> Interval:
    """Geometric mean over prompts of numerator / denominator, paired; prompts are resampled within `groups`."""
    logs = np.log(np.asarray(numerators, float)) - np.log(np.asarray(denominators, float))
    means = _resample(_labels(groups, len(logs))) @ logs
    return _exp(Interval(float(logs.mean()), *_ends(means)))


def pooled_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """Sum over sum: long answers weigh more."""
    return float(np.sum(numerators) / np.sum(denominators))


def share(parts: Sequence[float], wholes: Sequence[float], groups: Sequence[str] | None = None) -> Interval:
    """Sum of the parts over the sum of the wholes, a pair for each prompt."""
    weights = _resample(_labels(groups, len(parts)))
    counted, of = np.asarray(parts, float), np.asarray(wholes, float)
    with np.errstate(invalid="ignore"):
        resampled = (weights @ counted) / (weights @ of)
    return Interval(pooled_ratio(parts, wholes), *_ends(resampled[~np.isnan(resampled)]))


def mean(values: Sequence[float], groups: Sequence[str] | None = None) -> Interval:
    """Mean over prompts."""
    data = np.asarray(values, float)
    means = _resample(_labels(groups, len(data))) @ data
    return Interval(float(data.mean()), *_ends(means))


def _labels(groups: Sequence[str] | None, size: int) -> tuple[str, ...]:
    return tuple(groups) if groups is not None else ("",) * size


@lru_cache(maxsize=16)
def _resample(labels: tuple[str, ...]) -> np.ndarray:
    """Weights `[RESAMPLES, size]` of a stratified bootstrap, rows summing to 1; the same for the same groups."""
    if not labels:
        raise ValueError("no prompts to compare")
    rng = np.random.default_rng(0)
    weights = np.zeros((RESAMPLES, len(labels)))
    for label in dict.fromkeys(labels):
        members = np.flatnonzero(np.asarray(labels) == label)
        weights[:, members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)), RESAMPLES)
    return weights / len(labels)


def _ends(means: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _exp(interval: Interval) -> Interval:
    return Interval(*(float(np.exp(x)) for x in (interval.value, interval.low, interval.high)))
