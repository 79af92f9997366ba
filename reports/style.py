"""The one style of the figures: column width, 8 pt, colours that colour-blind readers tell apart (Okabe and Ito)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.pooled import Line, Part

WIDTH = 3.35
"""Of a column of a two-column paper [inches]; two panels side by side take both columns."""
BOUNDS = ("oracle", "perfect")
STYLE = {
    "spot": ("#D55E00", "o"),
    "spot-sets": ("#882255", "p"),
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
    "axes.titlesize": 7,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E5E5E5",
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,
    "text.parse_math": False,  # a name may hold a dollar sign
    "figure.dpi": 200,
}


@dataclass(frozen=True)
class Drawing:
    """A figure with its name and what it shows."""

    name: str
    caption: str
    figure: Figure

    @property
    def inches(self) -> float:
        """Its width."""
        return float(self.figure.get_figwidth())


@dataclass(frozen=True)
class Panel:
    """A place for one setting."""

    part: Part
    axes: Axes


def panels(parts: Sequence[Part], height: float, label: str, **shared: Any) -> tuple[Figure, list[Panel]]:
    """A place for each setting: a column for each T, or else two side by side. `label`: of the x axes."""
    rows, columns = layout(parts)
    figure = Figure(figsize=(WIDTH * min(columns, 2), height * rows + 0.6), layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False, **shared)
    made = [Panel(part, axes) for part, axes in zip(parts, places.flat, strict=False)]
    for panel in made:
        panel.axes.set_title(panel.part.setting.title)
    label_x(places, len(parts), label)
    return figure, made


def layout(parts: Sequence[Part]) -> tuple[int, int]:
    """Rows and columns of panels."""
    temperatures = len({part.setting.temperature for part in parts})
    columns = min(len(parts), temperatures if temperatures > 1 else 2)
    return -(-len(parts) // columns), columns


def label_x(places: "np.ndarray[Any, Any]", used: int, label: str) -> None:
    """Name the x axes at the bottom, where of the places of a figure only the first `used` hold something."""
    for n, axes in enumerate(places.flat):
        axes.set_visible(n < used)
        if n + places.shape[1] >= used:
            axes.set_xlabel(label)
            axes.xaxis.set_tick_params(labelbottom=True)


def curve(axes: Axes, name: str, shown: Iterable[str], x: Sequence[float], y: Sequence[float]) -> str:
    """A drafter's line, in its colour, which is returned."""
    colour, marker = look(name, shown)
    axes.plot(x, y, color=colour, marker=marker, linestyle="--" if name in BOUNDS else "-", label=name)
    return colour


def look(name: str, shown: Iterable[str]) -> tuple[str, str]:
    """Colour and marker of a drafter among those that are shown."""
    if name in STYLE:
        return STYLE[name]
    return OTHERS[[other for other in shown if other not in STYLE].index(name) % len(OTHERS)], "*"


def by_drafter(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """The lines of each drafter by rows. The baseline is none; uncoupled twins, and what lacks tasks, are left to the
    tables."""
    found: dict[str, list[Line]] = {}
    for line in sorted(lines, key=lambda line: line.rows):
        if line.drafter != "none" and not line.missing and not line.drafter.endswith("-uncoupled"):
            found.setdefault(line.drafter, []).append(line)
    order = [name for name in STYLE if name in found]
    return {name: found[name] for name in [*order, *(name for name in found if name not in STYLE)]}


def all_drafters(parts: Sequence[Part]) -> list[str]:
    """Those of any of the settings, in the order of the legend."""
    return list(by_drafter([line for part in parts for line in part.lines]))


def legend(figure: Figure, axes: Iterable[Axes], columns: int = 0) -> None:
    """One for all axes, below them."""
    entries = {label: handle for one in axes for handle, label in zip(*one.get_legend_handles_labels(), strict=True)}
    columns = columns or (3 if figure.get_figwidth() <= WIDTH else 6)
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside lower center",
        ncols=columns,
        columnspacing=1,
        handlelength=2,
    )


def rows_axis(axes: Axes, budgets: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(budgets, [str(rows) for rows in budgets])
    axes.minorticks_off()


def where(part: Part, between: str = ", ") -> str:
    """The target, and its context where it could have another."""
    context = part.setting.context
    return part.setting.target + ("" if context == "cached" else between + context)
