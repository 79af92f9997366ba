"""The figures of a grid: each function takes tables and gives one matplotlib figure, or None where there is no data.

One style: column width, 8 pt, colours that colour-blind readers tell apart (Okabe and Ito), and a marker a drafter. The
same tables give the same bytes.
"""

import io
import math
from collections.abc import Iterator, Sequence
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


def render(parts: Sequence[Part]) -> Iterator[tuple[str, bytes]]:
    """Every figure as PDF and PNG: the file's name and its content."""
    with mpl.rc_context(RC):
        drawn = list(_all(parts))
    for name, figure in drawn:
        for ending, metadata in (("pdf", {"CreationDate": None}), ("png", {"Software": None})):
            content = io.BytesIO()
            with mpl.rc_context(RC):
                figure.savefig(content, format=ending, metadata=metadata, bbox_inches="tight")
            yield f"{name}.{ending}", content.getvalue()


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
    shown = _by_drafter(part.lines)
    budgets = sorted({line.rows for lines in shown.values() for line in lines})
    if len(budgets) < 2:
        return None
    figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
    axes = figure.subplots()
    axes.set_title(part.setting.title)
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
    shown = {name: lines[-1] for name, lines in _by_drafter(part.lines).items()}
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
    share of the oracle's. A panel for each temperature and rule."""
    budgets = {line.rows for part in parts for line in part.lines}
    rows = 9 if 9 in budgets else max(budgets, default=1)
    panels: dict[tuple[float, str], dict[tuple[str, str], Line]] = {}
    for part in parts:
        panel = panels.setdefault((part.setting.temperature, part.setting.rule), {})
        for name, lines in _by_drafter(part.lines).items():
            panel |= {(name, _name(part, "\n")): line for line in lines if line.rows == rows and name != "perfect"}
    names = list(dict.fromkeys(name for panel in panels.values() for name, _ in panel))
    targets = list(dict.fromkeys(target for panel in panels.values() for _, target in panel))
    if len(targets) < 2:
        return None
    figure = Figure(figsize=(2 * WIDTH, (0.22 * len(names) + 0.5) * len(panels) + 0.6), layout="constrained")
    top = max(line.pooled_reduction for panel in panels.values() for line in panel.values())
    for axes, ((temperature, rule), panel) in zip(
        figure.subplots(len(panels), 1, squeeze=False)[:, 0], sorted(panels.items()), strict=True
    ):
        reductions = {at: line.pooled_reduction for at, line in panel.items()}
        axes.imshow(
            [[reductions.get((name, target), math.nan) for target in targets] for name in names],
            cmap="Blues", vmin=1, vmax=top, aspect="auto",
        )  # fmt: skip
        for (name, target), line in panel.items():
            share = "" if math.isnan(line.of_oracle) else f" ({line.of_oracle:.0%})"
            axes.text(
                targets.index(target),
                names.index(name),
                f"{line.pooled_reduction:.2f}{share}",
                ha="center",
                va="center",
                fontsize=6.5,
                color="white" if line.pooled_reduction > 1 + 0.6 * (top - 1) else "black",
            )
        axes.set_xticks(range(len(targets)), targets, fontsize=6)
        axes.set_yticks(range(len(names)), names)
        axes.set_title(f"pass reduction at {rows} rows (share of the oracle's), T = {temperature:g}, {rule}")
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
    return figure


def stale(parts: Sequence[Part]) -> Figure | None:
    """What the pass before already knew: the token, and the position (claim C1)."""
    known = {
        f"{_name(part)}, T = {part.setting.temperature:g}, {part.setting.rule}": counted
        for part in parts
        if (counted := [base for base in part.baselines if not math.isnan(base.stale_tokens)])
    }
    if not known:
        return None
    labels = list(known)
    figure = Figure(figsize=(WIDTH, 0.22 * len(labels) + 1), layout="constrained")
    axes = figure.subplots()
    marks = [(y, base) for y, bases in enumerate(known.values()) for base in bases]
    for name, colour, marker, shares in (
        ("token", "#0072B2", "o", [base.stale_tokens for _, base in marks]),
        ("position", "#D55E00", "s", [base.stale_choices for _, base in marks]),
    ):
        axes.plot(
            shares,
            [y for y, _ in marks],
            linestyle="",
            color=colour,
            marker=marker,
            alpha=0.7,
            clip_on=False,
            label=f"{name} already right",
        )
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of steps, a mark for each task")
    _legend(figure, axes, columns=2)
    return figure


def _name(part: Part, between: str = ", ") -> str:
    """The target, and its context where it could have another."""
    context = part.setting.context
    return part.setting.target + ("" if context == "cached" else between + context)


def _by_drafter(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """The lines of each drafter by rows; the baseline has none, and uncoupled twins are left to the tables."""
    found: dict[str, list[Line]] = {}
    for line in sorted(lines, key=lambda line: line.rows):
        if line.drafter != "none" and not line.drafter.endswith("-uncoupled"):
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
