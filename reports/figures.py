"""The figures of a grid: each function takes tables and gives one matplotlib figure, or None where there is no data.

One style: column width, 8 pt, colours that colour-blind readers tell apart (Okabe and Ito), and a marker a drafter. The
same tables give the same bytes.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.tables import Line, Part

WIDTH = 3.35
"""Of a column of a two-column paper [inches]."""
BOUNDS = ("oracle", "perfect")
STYLE = {
    "spot": ("#D55E00", "o"),
    "spot-sets": ("#D55E00", "o"),
    "spiffy-coverage": ("#0072B2", "s"),
    "spiffy-pruned": ("#56B4E9", "D"),
    "spiffy": ("#CC79A7", "^"),
    "best-first": ("#009E73", "v"),
    "chain": ("#E69F00", "P"),
    "left-to-right": ("#8C6D46", "X"),
    "oracle": ("#555555", ""),
    "perfect": ("#999999", ""),
}
OTHERS = ["#000000", "#F0E442"]
RC: Any = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.color": "#E5E5E5",
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "pdf.fonttype": 42,
    "text.parse_math": False,  # a name may hold a dollar sign
    "figure.dpi": 200,
}


def write(parts: Sequence[Part], folder: Path) -> list[str]:
    """Every figure as PDF and PNG; returns their names without the ending."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    with mpl.rc_context(RC):
        for name, figure in _all(parts):
            figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None}, bbox_inches="tight")
            figure.savefig(folder / f"{name}.png", metadata={"Software": None}, bbox_inches="tight")
            names.append(name)
    return names


def _all(parts: Sequence[Part]) -> Iterator[tuple[str, Figure]]:
    for part in parts:
        for kind, draw in (("reduction", reduction), ("depth", depth)):
            if figure := draw(part):
                yield f"{kind}-{part.setting.slug}", figure
    if figure := transfer(parts):
        yield "transfer", figure
    if figure := stale(parts):
        yield "stale", figure


def reduction(part: Part) -> Figure | None:
    """Pass reduction against rows, where there are several budgets, with 95 % bands; the bounds are dashed."""
    shown = {name: lines for name, lines in _by_drafter(part.lines).items() if name != "none"}
    budgets = sorted({line.rows for lines in shown.values() for line in lines})
    if len(budgets) < 2:
        return None
    figure, axes = _axes(part.setting.title, height=2.7)
    for name, lines in shown.items():
        rows = [line.rows for line in lines]
        colour, marker = _style(name, list(shown))
        axes.plot(
            rows,
            [line.reduction.value for line in lines],
            color=colour,
            marker=marker,
            linestyle="--" if name in BOUNDS else "-",
            label=name,
        )
        if name not in BOUNDS:
            low, high = [line.reduction.low for line in lines], [line.reduction.high for line in lines]
            axes.fill_between(rows, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(budgets, [str(rows) for rows in budgets])
    axes.minorticks_off()
    axes.set_ylim(bottom=1)
    axes.set_xlabel("rows a pass")
    axes.set_ylabel("pass reduction")
    _legend(figure, axes)
    return figure


def depth(part: Part, deepest: int = 8) -> Figure | None:
    """How deep drafts are accepted at the largest budget: the share of passes, and among those that came so far."""
    shown = {
        name: lines[-1] for name, lines in _by_drafter(part.lines).items() if name != "none" and lines[-1].rows > 1
    }
    if not shown:
        return None
    figure = Figure(figsize=(WIDTH, 2.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for name, line in shown.items():
        colour, marker = _style(name, list(shown))
        for axes, shares in ((left, line.acceptance.marginal), (right, line.acceptance.conditional)):
            kept = shares[:deepest]
            axes.plot(
                range(1, len(kept) + 1),
                kept,
                color=colour,
                marker=marker,
                linestyle="--" if name in BOUNDS else "-",
                label=name,
            )
    figure.suptitle(
        f"{part.setting.title}, {max(line.rows for line in shown.values())} rows", fontsize=8, x=0, ha="left"
    )
    left.set_title("share of passes")
    right.set_title("given one fewer")
    for axes in (left, right):
        axes.set_ylim(0, 1)
        axes.set_xlabel("accepted drafts or more")
    _legend(figure, left)
    return figure


def transfer(parts: Sequence[Part]) -> Figure | None:
    """Pooled pass reduction of every drafter on every target at one budget, 9 rows or else the largest; in brackets its
    share of the oracle's."""
    budgets = {line.rows for part in parts for line in part.lines}
    rows = 9 if 9 in budgets else max(budgets, default=1)
    chosen = {
        (_name(part, "\n"), part.setting.temperature, line.drafter): line
        for part in parts
        for line in part.lines
        if line.rows == rows and line.drafter not in ("none", "perfect")
    }
    targets = list(dict.fromkeys(target for target, _, _ in chosen))
    if len(targets) < 2:
        return None
    temperatures = sorted({temperature for _, temperature, _ in chosen})
    names = [name for name in dict.fromkeys(drafter for _, _, drafter in chosen) if not name.endswith("-uncoupled")]
    figure = Figure(figsize=(2 * WIDTH, (0.22 * len(names) + 0.5) * len(temperatures) + 0.6), layout="constrained")
    top = max(line.pooled_reduction for line in chosen.values())
    for axes, temperature in zip(figure.subplots(len(temperatures), 1, squeeze=False)[:, 0], temperatures, strict=True):
        grid = [[chosen.get((target, temperature, name)) for target in targets] for name in names]
        values = [[line.pooled_reduction if line else math.nan for line in row] for row in grid]
        axes.imshow(values, cmap="Blues", vmin=1, vmax=top, aspect="auto")
        for y, row in enumerate(grid):
            for x, line in enumerate(row):
                if line:
                    share = "" if math.isnan(line.of_oracle) else f" ({line.of_oracle:.0%})"
                    dark = line.pooled_reduction > 1 + 0.6 * (top - 1)
                    text = f"{line.pooled_reduction:.2f}{share}"
                    axes.text(x, y, text, ha="center", va="center", fontsize=6.5, color="white" if dark else "black")
        axes.set_xticks(range(len(targets)), targets, fontsize=6)
        axes.set_yticks(range(len(names)), names)
        axes.set_title(f"pass reduction at {rows} rows (share of the oracle's), T = {temperature:g}")
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
    return figure


def stale(parts: Sequence[Part]) -> Figure | None:
    """What the pass before already knew: the token, and the position (claim C1)."""
    points = [
        (f"{_name(part)}, T = {part.setting.temperature:g}", base.task, base.stale_tokens, base.stale_choices)
        for part in parts
        for base in part.baselines
        if not math.isnan(base.stale_tokens)
    ]
    if not points:
        return None
    labels = list(dict.fromkeys(label for label, *_ in points))
    figure = Figure(figsize=(WIDTH, 0.22 * len(labels) + 1), layout="constrained")
    axes = figure.subplots()
    for kind, colour, marker, column in (("token", "#0072B2", "o", 2), ("position", "#D55E00", "s", 3)):
        axes.plot(
            [point[column] for point in points],
            [labels.index(point[0]) for point in points],
            linestyle="",
            color=colour,
            marker=marker,
            alpha=0.7,
            clip_on=False,
            label=f"{kind} already right",
        )
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of steps, a mark for each task")
    _legend(figure, axes, columns=2)
    return figure


def _axes(title: str, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title)
    return figure, axes


def _name(part: Part, between: str = ", ") -> str:
    """The target, and its context where it could have another."""
    context = part.setting.context
    return part.setting.target + ("" if context == "cached" else between + context)


def _by_drafter(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """The lines of each drafter by rows; uncoupled twins are left to the tables."""
    found: dict[str, list[Line]] = {}
    for line in sorted(lines, key=lambda line: line.rows):
        if not line.drafter.endswith("-uncoupled"):
            found.setdefault(line.drafter, []).append(line)
    order = [name for name in STYLE if name in found]
    return {name: found[name] for name in [*order, *(name for name in found if name not in STYLE)]}


def _style(name: str, shown: Sequence[str]) -> tuple[str, str]:
    if name in STYLE:
        return STYLE[name]
    return OTHERS[[other for other in shown if other not in STYLE].index(name) % len(OTHERS)], "*"


def _legend(figure: Figure, axes: Axes, columns: int = 3) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, columnspacing=1, handlelength=2)
