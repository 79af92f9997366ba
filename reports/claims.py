"""The paper's claims (arXiv 2610.22543) beside what a grid measured.

A verdict is given on published models only. What was measured on tiny look-alikes is shown, and named so.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from reports import duel
from reports.pooled import Line, Part
from reports.tables import Column
from suite.measure.stats import Interval, ratio, share

TRAINING = Path(__file__).parent.parent / "drafters" / "weights" / "spot" / "training.json"
NOTHING = "not measured in this grid"


@dataclass(frozen=True)
class Finding:
    """What was measured for a claim and where, and whether it bears it out: None where that cannot be said."""

    measured: str
    interval: Interval | None
    where: str
    holds: bool | None = None


@dataclass(frozen=True)
class Claim:
    """`find` looks at the parts of published models, or at those of look-alikes, never at both. `needs`: what a grid
    must hold for it."""

    id: str
    claimed: str
    find: Callable[[Sequence[Part]], Finding | None]
    needs: str


@dataclass(frozen=True)
class Row:
    """One line of the page."""

    claim: Claim
    measured: str
    interval: str
    where: str
    command: str
    verdict: str


COLUMNS: list[Column[Row]] = [
    Column("", lambda x: x.claim.id, left=True),
    Column("claimed", lambda x: x.claim.claimed, left=True),
    Column("measured", lambda x: x.measured, left=True),
    Column("95 % interval", lambda x: x.interval, left=True),
    Column("of", lambda x: x.where, left=True),
    Column("command", lambda x: x.command, left=True),
    Column("verdict", lambda x: x.verdict, left=True),
]
NOTE = (
    "Claims of arXiv 2610.22543 beside what this grid measured; intervals are 95 % bootstrap over prompts. A verdict "
    "is given on published models only: figures of tiny look-alikes tell how the method behaves, not what those do."
)


def rows(parts: Sequence[Part], command: str = "-") -> list[Row]:
    """Every claim, measured or not. `command`: what measured the grid."""
    published = [part for part in parts if not part.setting.tiny]
    tiny = [part for part in parts if part.setting.tiny]
    return [_row(claim, published, tiny, command) for claim in CLAIMS]


def _row(claim: Claim, published: Sequence[Part], tiny: Sequence[Part], command: str) -> Row:
    for parts, before in ((published, ""), (tiny, "on tiny look-alikes: ")):
        if found := claim.find(parts):
            verdict = {True: "reproduced", False: "not reproduced in this grid", None: "no verdict"}[found.holds]
            spread = f"[{found.interval.low:.3g}, {found.interval.high:.3g}]" if found.interval else "-"
            verdict = "not measurable here: tiny look-alikes" if before else verdict
            return Row(claim, before + found.measured, spread, found.where, command, verdict)
    return Row(claim, NOTHING, "-", "-", "-", f"not measurable here: needs {claim.needs}")


def _stale(parts: Sequence[Part]) -> Finding | None:
    shares: dict[str, Interval] = {}
    for part in _exact(parts):
        seen = part.frame[part.frame["stale_commits"] > 0]
        for task, x in seen.groupby("task", sort=False):
            found = share(x["stale_tokens"].tolist(), x["stale_commits"].tolist())
            shares[f"{task}, {part.setting.title}"] = found
    if not shares:
        return None
    lowest = min(shares, key=lambda name: shares[name].value)
    values = [x.value for x in shares.values()]
    measured = f"{min(values):.1%} to {max(values):.1%}, by target, task and T"
    return Finding(measured, shares[lowest], f"the lowest: {lowest}", min(values) >= 0.9)


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
    return Finding(f"up to {best.value:.2f}x", best, _where(part, line), best.high >= claimed)


def _beats(parts: Sequence[Part]) -> Finding | None:
    fought = [(part, one) for part in _exact(parts) for one in duel.duels(part.frame, "spot")]
    if not fought:
        return None
    pooled = sum(one.pooled.low > 1 for _, one in fought)
    behind = sum(len(one.behind) for _, one in fought)
    part, worst = min(fought, key=lambda x: x[1].pooled.value)
    return Finding(
        f"needs fewer passes than the rival in {pooled} of {len(fought)} comparisons (a target, T, budget of 3 rows or "
        f"more and rival each, tasks pooled, whole interval above 1); behind in {behind} of their single tasks",
        worst.pooled,
        f"the closest: {worst.rival}, {part.setting.title}, {worst.rows} rows, {worst.pooled.value:.3f}",
        pooled == len(fought) and not behind,
    )


def _transfer(parts: Sequence[Part]) -> Finding | None:
    home = _training()["source"]["targets"]
    away = [part for part in _exact(parts) if part.setting.target not in home]
    fought = [(part, one) for part in away for one in duel.duels(part.frame, "spot")]
    if not fought:
        return None
    targets = list(dict.fromkeys(part.setting.target for part, _ in fought))
    ahead = [
        target for target in targets if all(one.pooled.low > 1 for part, one in fought if part.setting.target == target)
    ]
    part, worst = min(fought, key=lambda x: x[1].pooled.value)
    return Finding(
        f"ahead of every rival at every budget on {len(ahead)} of {len(targets)} targets it was not trained on"
        + (f" ({', '.join(ahead)})" if ahead else ""),
        worst.pooled,
        f"the closest: {worst.rival}, {part.setting.title}, {worst.rows} rows, {worst.pooled.value:.3f}",
        len(ahead) == len(targets),
    )


def _sets(parts: Sequence[Part]) -> Finding | None:
    """At the budget that is best over all settings and tasks, every prompt once."""
    of = [part.frame[part.frame["drafter"] == "spot-sets"] for part, _ in _lines(parts, "spot-sets")]
    if not of:
        return None
    frame = pd.concat(of).drop_duplicates(["cell_id", "doc_id"])
    timed = frame[~frame["replayed"]]
    before, after = ("baseline_s", "decode_s") if len(timed) else ("baseline_passes", "passes")
    budgets = {
        int(str(rows)): ratio(x[before].tolist(), x[after].tolist(), x["cell_id"].tolist())
        for rows, x in (timed if len(timed) else frame).groupby("rows")
    }
    rows = max(budgets, key=lambda rows: budgets[rows].value)
    best = budgets[rows]
    where = f"{', '.join(frame['target'].unique())}, {rows} rows, the best of its budgets"
    if len(timed):
        measured = f"{best.value:.2f}x the throughput of the threshold decoder alone ({best.value - 1:+.0%})"
        return Finding(measured, best, where, best.value >= 1.59)
    return Finding(
        f"throughput not measured; {best.value:.2f}x fewer passes than threshold decoding alone", best, where
    )


def _network(parts: Sequence[Part]) -> Finding | None:
    if not list(_lines(parts, "spot")):
        return None
    training = _training()
    home = training["source"]["targets"]
    measured = (
        f"{training['parameters'] / 1e6:.2f} M parameters; next-commit accuracy {training['accuracy_by_depth'][0]:.3f} "
        f"on held-out train prompts of {', '.join(home)}"
    )
    frames = [part.frame for part in _exact(parts) if part.setting.target in home]
    own = [x[(x["drafter"] == "spot") & (x["rows"] == 2)] for x in frames]
    if not own or (frame := pd.concat(own)).empty:
        return Finding(measured, None, "-")
    accepted = [sum(depths) for depths in frame["depths"]]
    found = share(accepted, (frame["rows_used"] - frame["verify_passes"]).tolist(), frame["cell_id"].tolist())
    return Finding(f"{measured}; of its drafts at 2 rows here {found.value:.3f} are accepted", found, ", ".join(home))


def _training() -> dict[str, Any]:
    """What the shipped network was made of and reached."""
    record: dict[str, Any] = json.loads(TRAINING.read_text(encoding="utf-8"))
    return record


def _exact(parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if part.setting.rule == "exact"]


def _lines(parts: Sequence[Part], drafter: str) -> Iterator[tuple[Part, Line]]:
    """Complete ones."""
    return ((part, line) for part in parts for line in part.lines if line.drafter == drafter and not line.missing)


def _where(part: Part, line: Line) -> str:
    return f"{part.setting.title}, {line.rows} rows"


SPOT_EXACT = "cells of spot under exact decoding"
CLAIMS = [
    Claim(
        "C1",
        "the stale token is right at 92-100 % of positions (revised: over 90 %)",
        _stale,
        "cells of exact decoding",
    ),
    Claim("C2", "up to 6.8x fewer target passes than exact decoding", _passes, SPOT_EXACT),
    Claim(
        "C3", "up to 3.2x the throughput of exact decoding (revised: 3.4x)", _speed, f"timed {SPOT_EXACT}, no replay"
    ),
    Claim(
        "C4",
        "SPOT beats calibrated and training-free drafters in every task and budget, at T=0 and T=1",
        _beats,
        f"{SPOT_EXACT} and of rivals at 3 rows or more",
    ),
    Claim(
        "C5",
        "the drafter transfers to six models",
        _transfer,
        f"{SPOT_EXACT} and of rivals on targets besides its home",
    ),
    Claim("C6", "SPOT-Sets: +59 % throughput over the threshold decoder alone", _sets, "cells of spot-sets"),
    Claim("C7", "0.62 M parameters; next-commit accuracy 0.750 held out", _network, "cells of spot"),
]
