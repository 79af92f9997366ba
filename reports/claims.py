"""The paper's claims (arXiv 2610.22543) beside what a grid measured.

A verdict is given on published models only. What was measured on tiny look-alikes is shown, and named so.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from reports import duel
from reports.tables import Column, Line, Part
from suite.measure.stats import Interval

TRAINING = Path(__file__).parent.parent / "drafters" / "weights" / "spot" / "training.json"
NOTHING = "not measured in this grid"


@dataclass(frozen=True)
class Finding:
    """What was measured for a claim, and whether it bears it out: None where that cannot be said."""

    measured: str
    holds: bool | None = None


@dataclass(frozen=True)
class Claim:
    """`find` looks at the parts of published models, or at those of look-alikes, never at both."""

    id: str
    claimed: str
    find: Callable[[Sequence[Part]], Finding | None]


@dataclass(frozen=True)
class Row:
    """One line of the page."""

    claim: Claim
    measured: str
    verdict: str


COLUMNS: list[Column[Row]] = [
    Column("", lambda x: x.claim.id, left=True),
    Column("claimed", lambda x: x.claim.claimed, left=True),
    Column("measured", lambda x: x.measured, left=True),
    Column("verdict", lambda x: x.verdict, left=True),
]
NOTE = (
    "Claims of arXiv 2610.22543 beside what this grid measured; intervals are 95 % bootstrap over prompts. A verdict "
    "is given on published models only: figures of tiny look-alikes tell how the method behaves, not what those do."
)


def rows(parts: Sequence[Part]) -> list[Row]:
    """Every claim, measured or not."""
    published = [part for part in parts if not part.setting.tiny]
    tiny = [part for part in parts if part.setting.tiny]
    return [_row(claim, published, tiny) for claim in CLAIMS]


def _row(claim: Claim, published: Sequence[Part], tiny: Sequence[Part]) -> Row:
    if found := claim.find(published):
        verdict = {True: "reproduced", False: "not in this grid", None: "-"}[found.holds]
        return Row(claim, found.measured, verdict)
    if found := claim.find(tiny):
        return Row(claim, f"on tiny look-alikes: {found.measured}", "not measurable on look-alikes")
    return Row(claim, NOTHING, "-")


def _stale(parts: Sequence[Part]) -> Finding | None:
    shares = [base.stale_tokens for part in parts for base in part.baselines if not math.isnan(base.stale_tokens)]
    if not shares:
        return None
    return Finding(f"{min(shares):.1%} to {max(shares):.1%}, by target, task and T", min(shares) >= 0.9)


def _passes(parts: Sequence[Part]) -> Finding | None:
    return _best(parts, lambda line: line.reduction, 6.8)


def _speed(parts: Sequence[Part]) -> Finding | None:
    return _best(parts, lambda line: line.speedup, 3.2)


def _best(parts: Sequence[Part], figure: Callable[[Line], Interval], claimed: float) -> Finding | None:
    """SPOT's largest figure under exact decoding, among those that were measured."""
    found = [(part, line) for part, line in _lines(_exact(parts), "spot") if not math.isnan(figure(line).value)]
    if not found:
        return None
    part, line = max(found, key=lambda x: figure(x[1]).value)
    best = figure(line)
    measured = f"up to {best.value:.2f}x [{best.low:.2f}, {best.high:.2f}] ({_where(part, line)})"
    return Finding(measured, best.high >= claimed)


def _beats(parts: Sequence[Part]) -> Finding | None:
    fought = [one for part in _exact(parts) for one in duel.duels(part.frame, "spot")]
    if not fought:
        return None
    pooled = sum(one.pooled.low > 1 for one in fought)
    behind = sum(len(one.behind) for one in fought)
    return Finding(
        f"needs fewer passes than the rival in {pooled} of {len(fought)} comparisons (a target, T, budget of 3 rows or "
        f"more and rival each, tasks pooled, whole interval above 1); behind in {behind} of their single tasks",
        pooled == len(fought) and not behind,
    )


def _transfer(parts: Sequence[Part]) -> Finding | None:
    home = _training()["source"]["targets"]
    away = [part for part in _exact(parts) if part.setting.target not in home]
    fought = [(part.setting.target, one) for part in away for one in duel.duels(part.frame, "spot")]
    if not fought:
        return None
    targets = list(dict.fromkeys(target for target, _ in fought))
    ahead = [target for target in targets if all(one.pooled.low > 1 for where, one in fought if where == target)]
    return Finding(
        f"ahead of every rival at every budget on {len(ahead)} of {len(targets)} targets it was not trained on"
        + (f" ({', '.join(ahead)})" if ahead else ""),
        len(ahead) == len(targets),
    )


def _sets(parts: Sequence[Part]) -> Finding | None:
    lines = list(_lines(parts, "spot-sets"))
    if not lines:
        return None
    timed = [line.speedup.value for _, line in lines if not math.isnan(line.speedup.value)]
    if timed:
        gain = geometric_mean(timed) - 1
        return Finding(f"{gain:+.0%} throughput over threshold decoding, all budgets", gain >= 0.59)
    part, line = max(lines, key=lambda x: x[1].reduction.value)
    return Finding(
        f"throughput not measured; up to {line.reduction.value:.2f}x fewer passes than threshold decoding alone "
        f"({_where(part, line)})"
    )


def _network(parts: Sequence[Part]) -> Finding | None:
    if not list(_lines(parts, "spot")):
        return None
    training = _training()
    return Finding(
        f"{training['parameters'] / 1e6:.2f} M parameters; next-commit accuracy {training['accuracy_by_depth'][0]:.3f} "
        f"on held-out train prompts of {', '.join(training['source']['targets'])}"
    )


def _training() -> dict[str, Any]:
    """What the shipped network was made of and reached."""
    record: dict[str, Any] = json.loads(TRAINING.read_text(encoding="utf-8"))
    return record


def _exact(parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if part.setting.rule == "exact"]


def _lines(parts: Sequence[Part], drafter: str) -> Iterator[tuple[Part, Line]]:
    return ((part, line) for part in parts for line in part.lines if line.drafter == drafter)


def _where(part: Part, line: Line) -> str:
    return f"{part.setting.title}, {line.rows} rows"


CLAIMS = [
    Claim("C1", "the stale token is right at 92-100 % of positions (revised: over 90 %)", _stale),
    Claim("C2", "up to 6.8x fewer target passes than exact decoding", _passes),
    Claim("C3", "up to 3.2x the throughput of exact decoding (revised: 3.4x)", _speed),
    Claim("C4", "SPOT beats calibrated and training-free drafters in every task and budget, at T=0 and T=1", _beats),
    Claim("C5", "the drafter transfers to six models", _transfer),
    Claim("C6", "SPOT-Sets: +59 % throughput over the threshold decoder alone", _sets),
    Claim("C7", "0.62 M parameters; next-commit accuracy 0.750 held out", _network),
]
