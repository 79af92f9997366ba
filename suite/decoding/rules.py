"""Commit rules: which masked positions one step commits.

`exact` and `threshold` are what drafters are measured under. `fixed`, `eb` and `klass` commit several positions on
other grounds; like `threshold` they are lossy with respect to exact decoding, by definition: reference lines for what
speed costs in accuracy.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import ClassVar

from suite.errors import UserError


@dataclass(frozen=True)
class CommitRule(ABC):
    """Which of the masked positions commit, given what the target says of them (same order; at least one).

    A rule is told what it asks for: `needs_entropies`, and a `memory` of the block's so many passes before this one, to
    see how far the target's mind has changed since. `draftable`: whether it may be decoded with drafts.
    """

    name: ClassVar[str]
    needs_entropies: ClassVar[bool] = False
    memory: ClassVar[int] = 0
    draftable: ClassVar[bool] = True

    @abstractmethod
    def choose(
        self, confidences: Sequence[float], entropies: Sequence[float] = (), drifts: Sequence[float] = ()
    ) -> list[int]:
        """Indices into `confidences`, ascending, never empty. For `entropies` and `drifts` see `Prediction`."""

    @abstractmethod
    def gap(self, confidences: Sequence[float], chosen: Sequence[int]) -> float:
        """How far some confidence would have to move for `chosen` to be chosen; 0 for the choice and its ties.

        Infinite where no confidence could bring it about, or the rule does not go by confidences alone.
        """

    def __str__(self) -> str:
        """What `parse_rule` reads back as the same rule."""
        numbers = [f"{Decimal(repr(getattr(self, f.name))):f}".removesuffix(".0") for f in fields(self)]
        return f"{self.name}({','.join(numbers)})" if numbers else self.name


@dataclass(frozen=True)
class Exact(CommitRule):
    """The most confident position, the lower one on a tie."""

    name = "exact"

    def choose(
        self, confidences: Sequence[float], entropies: Sequence[float] = (), drifts: Sequence[float] = ()
    ) -> list[int]:
        return [max(range(len(confidences)), key=lambda n: (confidences[n], -n))]

    def gap(self, confidences: Sequence[float], chosen: Sequence[int]) -> float:
        return max(confidences) - confidences[chosen[0]] if len(chosen) == 1 else math.inf


@dataclass(frozen=True)
class Threshold(CommitRule):
    """Every position whose confidence exceeds tau; the exact choice if there is none."""

    tau: float
    name = "threshold"

    def __post_init__(self) -> None:
        if not 0 < self.tau < 1:
            raise UserError(f"threshold({self.tau}): tau must lie strictly between 0 and 1")

    def choose(
        self, confidences: Sequence[float], entropies: Sequence[float] = (), drifts: Sequence[float] = ()
    ) -> list[int]:
        return [n for n, c in enumerate(confidences) if c > self.tau] or Exact().choose(confidences)

    def gap(self, confidences: Sequence[float], chosen: Sequence[int]) -> float:
        above = [c - self.tau for n, c in enumerate(confidences) if n not in chosen]
        below = [self.tau - confidences[n] for n in chosen]
        as_set = max(0.0, *above, *below) if chosen else math.inf
        as_fallback = max(Exact().gap(confidences, chosen), max(confidences) - self.tau)
        return min(as_set, as_fallback)


@dataclass(frozen=True)
class Fixed(CommitRule):
    """The n most confident positions, the lower ones on a tie; all of them where fewer are left.

    Lossy with respect to exact decoding, which is n = 1: the static schedule of LLaDA and SDAR with fewer steps than
    positions.
    """

    n: int
    name = "fixed"

    def __post_init__(self) -> None:
        if self.n < 1:
            raise UserError(f"fixed({self.n}): n must be 1 or more")

    def choose(
        self, confidences: Sequence[float], entropies: Sequence[float] = (), drifts: Sequence[float] = ()
    ) -> list[int]:
        return sorted(sorted(range(len(confidences)), key=lambda n: (-confidences[n], n))[: self.n])

    def gap(self, confidences: Sequence[float], chosen: Sequence[int]) -> float:
        if len(chosen) != min(self.n, len(confidences)):
            return math.inf
        left = [c for n, c in enumerate(confidences) if n not in chosen]
        return max(0.0, max(left) - min(confidences[n] for n in chosen)) if left else 0.0


@dataclass(frozen=True)
class EntropyBounded(CommitRule):
    """The positions of least entropy, as many as keep their entropies' sum less the largest at or below gamma (nats).

    EB-Sampler (arXiv 2505.24857) with the entropy as its error proxy. Lossy with respect to exact decoding at any
    gamma: it goes by entropy, and by confidence not at all.
    """

    gamma: float
    name = "eb"
    needs_entropies = True
    draftable = False

    def __post_init__(self) -> None:
        if not 0 <= self.gamma < math.inf:
            raise UserError(f"eb({self.gamma}): gamma must be 0 or more, and finite")

    def choose(
        self, confidences: Sequence[float], entropies: Sequence[float] = (), drifts: Sequence[float] = ()
    ) -> list[int]:
        order = sorted(range(len(entropies)), key=lambda n: (entropies[n], n))
        count, below = 1, entropies[order[0]]  # ascending: the sum less the largest is the sum of those before it
        while count < len(order) and below <= self.gamma:
            below += entropies[order[count]]
            count += 1
        return sorted(order[:count])

    def gap(self, confidences: Sequence[float], chosen: Sequence[int]) -> float:
        return math.inf


@dataclass(frozen=True)
class Klass(CommitRule):
    """Every position that is sure and stable: confidence above c, and drift below kl (nats); else the exact choice.

    KLASS (arXiv 2511.05664, history of 2 passes). Its reference code compares a block's first passes with those of
    the block before; here a position needs two earlier passes of its own block. Lossy with respect to exact decoding.
    """

    c: float
    kl: float
    name = "klass"
    memory = 2
    draftable = False

    def __post_init__(self) -> None:
        if not 0 < self.c < 1 or not 0 < self.kl < math.inf:
            raise UserError(f"klass({self.c},{self.kl}): c must lie strictly between 0 and 1, kl be above 0 and finite")

    def choose(
        self, confidences: Sequence[float], entropies: Sequence[float] = (), drifts: Sequence[float] = ()
    ) -> list[int]:
        seen = enumerate(zip(confidences, drifts, strict=True))
        return [n for n, (c, drift) in seen if c > self.c and drift < self.kl] or Exact().choose(confidences)

    def gap(self, confidences: Sequence[float], chosen: Sequence[int]) -> float:
        return math.inf


def parse_rule(text: str) -> CommitRule:
    """The rule that a text names, such as `threshold(0.9)`. Raises UserError."""
    for form, rule in _FORMS.items():
        if match := re.fullmatch(form, text):
            return rule(*match.groups())
    raise UserError(
        f"unknown commit rule {text!r}; write 'exact', 'threshold(0.9)', 'fixed(2)', 'eb(0.1)' or 'klass(0.9,0.01)'"
    )


_NUMBER = r"(\d*\.?\d+)"
_FORMS: dict[str, Callable[..., CommitRule]] = {
    r"exact": Exact,
    rf"threshold\({_NUMBER}\)": lambda tau: Threshold(float(tau)),
    r"fixed\((\d{1,9})\)": lambda n: Fixed(int(n)),
    rf"eb\({_NUMBER}\)": lambda gamma: EntropyBounded(float(gamma)),
    rf"klass\({_NUMBER}, *{_NUMBER}\)": lambda c, kl: Klass(float(c), float(kl)),
}
