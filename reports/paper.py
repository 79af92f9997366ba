r"""The tables of a paper, from the same lines as the report: LaTeX, Markdown and CSV, and a document that holds all.

`pdflatex paper.tex` in the folder `paper` sets it; a paper takes single tables with \input.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from reports import typeset
from reports.pooled import Line, Part, by_task, slug, units
from reports.style import BOUNDS, Drawing
from reports.typeset import MISSING, NOT_MEASURED, Entry, Group, PaperTable, Row, figure, interval
from suite.measure.stats import mean

WEIGHTS = Path(__file__).parent.parent / "drafters" / "weights"
ASIDE = (*BOUNDS, "random")
"""Bounds, which no drafter can be measured against."""


def tables(parts: Sequence[Part]) -> Iterator[PaperTable]:
    """Those that a grid has figures for."""
    drafted = [part for part in parts if any(line.drafter != "none" for line in part.lines)]
    for target in dict.fromkeys((part.setting.target, part.setting.context, part.setting.rule) for part in drafted):
        yield passes([one for one in drafted if (one.setting.target, one.setting.context, one.setting.rule) == target])
    for make in (accuracy, transfer, sets, cost, lossless):
        if (table := make(parts)).groups:
            yield replace(table, caption=table.caption + _origin(parts))


def passes(parts: Sequence[Part]) -> PaperTable:
    """Pass reduction and throughput of one target under one rule, by T, task, drafter and budget."""
    setting = parts[0].setting
    timed = not setting.replayed
    budgets = _budgets(parts)
    kinds: list[tuple[str, Callable[[Line], Entry]]] = [("pass reduction", lambda x: interval(x.reduction))]
    if timed:
        kinds.append(("tokens/s", _throughput))
    groups = []
    for part in parts:
        tasks = by_task(part)
        for task, lines in {**tasks, **({"all tasks": part.lines} if len(tasks) > 1 else {})}.items():
            base = next((line for line in lines if line.drafter == "none"), None)
            title = f"T = {part.setting.temperature:g}, {task}"
            if base:
                speed = f", {base.tokens_per_s:.0f} tokens/s" if timed else ""
                title += f" (without drafts: {base.passes:.1f} passes{speed})"
            rows = [_by_budget(name, own, budgets, kinds) for name, own in _drafters(lines, part.absent).items()]
            groups.append(Group(title, _ranked(rows)))
    return PaperTable(
        name=slug(f"passes-{setting.target}-{setting.context}-{setting.rule}"),
        caption=f"{setting.target}, {setting.rule}: pass reduction{' and throughput' if timed else ''} by rows a pass. "
        "Geometric means over prompts of baseline / drafter, paired. Bold: the best of a column and all whose 95 % "
        "intervals overlap with its own. Italic: bounds. "
        + ("Tokens/s compare by the paired speed-up. " if timed else "")
        + _origin(parts).strip(),
        labels=("drafter",),
        columns=tuple((over, str(rows)) for over, _ in kinds for rows in budgets),
        groups=tuple(groups),
    )


def accuracy(parts: Sequence[Part]) -> PaperTable:
    """Of every drafter beside the plain decoder's. A replay has the baseline's answers and measures no other."""
    without = {task for part in parts for (task,), x in part.frame.groupby(["task"]) if x["score"].isna().all()}
    order = [task for part in parts for task in [*part.frame["task"].unique(), *sorted(x for x, _ in part.wanted)]]
    tasks = [task for task in dict.fromkeys(order) if task not in without]
    groups = []
    for part in parts:
        scored = part.frame[part.frame["score"].notna() & ((part.frame["drafter"] == "none") | ~part.frame["replayed"])]
        if scored.empty:
            continue
        keys = ["task", "seed", "doc_id"]
        base = scored[scored["drafter"] == "none"].set_index(keys)["score"]
        rows = []
        for name, own in scored.groupby("drafter", sort=False):
            lacking, spread = _lacking(part, str(name)), name == "none"
            found = [MISSING if x in lacking else _mean(own[own["task"] == x], spread) for x in tasks]
            whole, last = (MISSING, MISSING) if lacking else (_mean(own, spread), NOT_MEASURED)
            beside = own.join(base.rename("base"), on=keys, how="inner")
            if not lacking and name != "none" and len(beside) == len(own):
                less = (beside["score"] - beside["base"]).tolist()
                last = interval(mean(less, beside["task"].tolist()), 3, spread=True)
            rows.append(Row((str(name),), (*found, whole, last), name in ASIDE))
        groups.append(Group(part.setting.title, tuple(rows)))
    return PaperTable(
        name="accuracy",
        caption="Accuracy beside the plain decoder's (none), all budgets of a drafter together, [95 % intervals]. The "
        "last column is the paired difference.",
        labels=("drafter",),
        columns=(*(("accuracy", task) for task in tasks), ("accuracy", "all"), ("", "minus none")),
        groups=tuple(groups),
    )


def transfer(parts: Sequence[Part]) -> PaperTable:
    """Every drafter with its home on every target, at one budget."""
    targets = list(dict.fromkeys((part.setting.target, part.setting.context) for part in parts))
    drafted = [part for part in parts if _drafters(part.lines)]
    budgets = _budgets(drafted)
    rows = 9 if 9 in budgets else max(budgets, default=0)
    groups = []
    for of in dict.fromkeys((part.setting.temperature, part.setting.rule, part.setting.replayed) for part in drafted):
        here = {
            (part.setting.target, part.setting.context): {
                line.drafter: line for line in part.lines if line.rows == rows
            }
            for part in drafted
            if (part.setting.temperature, part.setting.rule, part.setting.replayed) == of
        }
        names = dict.fromkeys(name for lines in here.values() for name in lines)
        made = [
            Row(
                (name, home(name)),
                tuple(_whole(here.get(at, {}).get(name), lambda x: interval(x.reduction)) for at in targets),
                name in ASIDE,
            )
            for name in names
        ]
        groups.append(Group(f"T = {of[0]:g}, {of[1]}" + (", replayed" if of[2] else ""), _ranked(made)))
    return PaperTable(
        name="transfer",
        caption=f"Transfer: pass reduction at {rows} rows by the drafter's home and the target. Bold: the best on a "
        "target and all whose 95 % intervals overlap with its own. Italic: bounds.",
        labels=("drafter", "home"),
        columns=tuple(
            ("target", target + ("" if context == "cached" else f" ({context})")) for target, context in targets
        ),
        groups=tuple(groups) if len(targets) > 1 else (),
    )


def sets(parts: Sequence[Part]) -> PaperTable:
    """What drafting adds to threshold decoding, beside what that loses against exact decoding."""
    wanted = [part for part in parts if part.setting.rule.startswith("threshold(") and _drafters(part.lines)]
    budgets = _budgets(wanted)
    groups = []
    for part in wanted:
        exact = replace(part.setting, rule="exact")
        beside = next(
            (line for one in parts if one.setting == exact for line in one.lines if line.drafter == "none"), None
        )
        base = next((line for line in part.lines if line.drafter == "none"), None)
        last = tuple(
            _whole(line, lambda x: figure(x.accuracy.value)) if line else NOT_MEASURED for line in (base, beside)
        )
        kind = [("", lambda x: interval(x.reduction if math.isnan(x.speedup.value) else x.speedup))]
        rows = []
        for name, lines in _drafters(part.lines, part.absent).items():
            row = _by_budget(name, lines, budgets, kind)
            rows.append(replace(row, entries=(*row.entries, *last)))
        groups.append(Group(part.setting.title, _ranked(rows)))
    timed = any(not part.setting.replayed for part in wanted)
    over = "throughput / threshold alone" if timed else "pass reduction over threshold alone"
    return PaperTable(
        name="sets",
        caption=f"Drafting on threshold decoding: {over} by rows a pass, paired geometric means, and the accuracy of "
        "threshold decoding (the same with and without drafts) beside exact decoding's in this grid. Bold: the best "
        "and all whose 95 % intervals overlap with its own. Italic: bounds."
        + (
            " Replayed settings have pass reductions."
            if timed and any(part.setting.replayed for part in wanted)
            else ""
        ),
        labels=("drafter",),
        columns=(*((over, str(rows)) for rows in budgets), ("accuracy", "threshold"), ("accuracy", "exact")),
        groups=tuple(groups),
    )


def cost(parts: Sequence[Part]) -> PaperTable:
    """What a drafter weighs and takes."""
    drafted = [part for part in parts if _drafters(part.lines)]
    budgets = _budgets(drafted)
    timed = any(not part.setting.replayed for part in drafted)
    kinds: list[tuple[str, Callable[[Line], Entry]]] = [
        ("draft ms a pass", lambda x: figure(x.draft_ms or math.nan, 1)),
    ]
    if timed:
        kinds.append(("share of decode time", lambda x: _percent(x.draft_share)))
    groups = []
    for part in drafted:
        rows = []
        for name, lines in _drafters(part.lines, part.absent).items():
            if name not in ASIDE:
                row = _by_budget(name, lines, budgets, kinds)
                rows.append(Row((name, _parameters(name)), row.entries))
        groups.append(Group(part.setting.title, tuple(rows)))
    return PaperTable(
        name="cost",
        caption="What drafting costs by rows a pass. Parameters: of the network that ships for a drafter. Times are of "
        "the machine that the results are of; a nested drafter is replayed once for its largest budget.",
        labels=("drafter", "parameters"),
        columns=tuple((over, str(rows)) for over, _ in kinds for rows in budgets),
        groups=tuple(group for group in groups if group.rows),
    )


def lossless(parts: Sequence[Part]) -> PaperTable:
    """Every drafted answer against the plain decoder's. A replay cannot differ, so it is no evidence."""
    rows = []
    for part in parts:
        lines = [line for line in part.lines if line.drafter != "none"]
        if not lines:
            continue
        prompts = sum(line.prompts for line in lines)
        same = sum(line.exact_match * line.prompts for line in lines)
        ties, bugs = sum(line.ties for line in lines), sum(line.bugs for line in lines)
        entries = (
            figure(len({line.drafter for line in lines}), 0),
            figure(prompts, 0),
            figure(100 * same / prompts, 2, " %"),
            figure(ties, 0),
            figure(bugs, 0),
        )
        rows.append(Row((part.setting.title,), (entries[0], *[NOT_MEASURED] * 4) if part.setting.replayed else entries))
    return PaperTable(
        name="lossless",
        caption="Losslessness: token ids of every drafted answer beside the plain decoder's. A tie is a difference "
        "within the numeric tolerance of the dtype, a bug one above it. Replays cannot differ and are not counted.",
        labels=("setting",),
        columns=(("", "drafters"), ("", "answers"), ("", "exact match"), ("", "numeric ties"), ("", "bugs")),
        groups=(Group("", tuple(rows)),) if rows else (),
    )


def home(drafter: str) -> str:
    """Where a drafter was made for: the targets that its network was trained on, as far as one ships."""
    if training := _training(drafter):
        return ", ".join(training["source"]["targets"])
    return "each target" if drafter.startswith("spiffy") else "-"


def document(name: str, made: Sequence[PaperTable], drawn: Sequence[Drawing]) -> str:
    """All tables and figures of a grid, to be set in the folder `paper` beside `figures`."""
    inputs = [rf"\input{{{table.name}}}" for table in made]
    pictures = [
        "\n".join(
            [
                r"\begin{figure}[htbp]",
                r"\centering",
                rf"\includegraphics[width={one.inches:.2f}in,height=0.86\textheight,keepaspectratio]{{../figures/{one.name}.pdf}}",
                rf"\caption{{{typeset.escape(one.caption)}}}",
                r"\end{figure}",
            ]
        )
        for one in drawn
    ]
    return "\n".join(
        [
            r"\documentclass[a4paper]{article}",
            r"\usepackage[margin=18mm]{geometry}",
            r"\usepackage{booktabs,graphicx}",
            r"\begin{document}",
            rf"\section*{{{typeset.escape(name)}}}",
            *inputs,
            r"\clearpage",
            *pictures,
            r"\end{document}",
            "",
        ]
    )


def _budgets(parts: Sequence[Part]) -> list[int]:
    found = {line.rows for part in parts for line in part.lines if line.drafter != "none"}
    return sorted(found | {rows for part in parts for drafter, rows in part.absent if drafter != "none"})


def _drafters(lines: Sequence[Line], absent: Sequence[tuple[str, int]] = ()) -> dict[str, dict[int, Line]]:
    """The lines of each by rows, those that have none yet too; the baseline is none."""
    found: dict[str, dict[int, Line]] = {}
    for line in lines:
        found.setdefault(line.drafter, {})[line.rows] = line
    found |= {drafter: {} for drafter, _ in absent if drafter not in found}
    return {name: own for name, own in found.items() if name != "none"}


def _by_budget(
    name: str, lines: Mapping[int, Line], budgets: Sequence[int], kinds: Sequence[tuple[str, Callable[[Line], Entry]]]
) -> Row:
    return Row((name,), tuple(_whole(lines.get(rows), show) for _, show in kinds for rows in budgets), name in ASIDE)


def _whole(line: Line | None, show: Callable[[Line], Entry]) -> Entry:
    """A figure of what is complete: one that lacks cells is none."""
    return MISSING if line is None or line.missing else show(line)


def _lacking(part: Part, drafter: str) -> set[str]:
    """The tasks of which a cell of the drafter is not finished."""
    own = part.frame[part.frame["drafter"] == drafter]
    lacking = {task for _, x in own.groupby("rows") for task, _ in part.wanted - units(x)}
    return lacking | {task for name, _ in part.absent if name == drafter for task, _ in part.wanted}


def _throughput(line: Line) -> Entry:
    return replace(figure(line.tokens_per_s, 0), by=line.speedup)


def _percent(share: float) -> Entry:
    return NOT_MEASURED if math.isnan(share) else Entry(f"{share:.0%}", share)


def _parameters(drafter: str) -> str:
    training = _training(drafter)
    return f"{training['parameters'] / 1e6:.2f} M" if training else "-"


def _mean(scored: pd.DataFrame, spread: bool) -> Entry:
    if scored.empty:
        return NOT_MEASURED
    return interval(mean(scored["score"].tolist(), scored["task"].tolist()), spread=spread)


def _ranked(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The best of each column marked, bounds last."""
    ordered = sorted(rows, key=lambda row: row.aside)
    return typeset.contest(ordered, range(len(ordered[0].entries) if ordered else 0))


def _origin(parts: Sequence[Part]) -> str:
    tiny = list(dict.fromkeys(part.setting.target for part in parts if part.setting.tiny))
    replayed = all(part.setting.replayed for part in parts)
    said = " From traces." if replayed else ""
    if tiny:
        said += f" Tiny look-alikes, which say nothing about published models: {', '.join(tiny)}."
    return said


def _training(drafter: str) -> dict[str, Any] | None:
    """The record of the network that ships for a drafter."""
    path = WEIGHTS / drafter.removesuffix("-uncoupled") / "training.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
