"""Figures of what is where: drafters by target, what stale passes knew, one decode."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from reports.pooled import Line, Part
from reports.style import BOUNDS, WIDTH, by_drafter, label_x, legend, where
from suite.cells import Cell
from suite.records import Step
from suite.store import Store

LONGEST = 40
"""Passes of the plain decoder that the figure of one decode shows, whole blocks."""
TRANSFER = (
    "Every drafter on every target: pooled pass reduction at one budget; in brackets its share of the bound's, the "
    "true order with stale tokens."
)
STALE = (
    "What the pass before already knew, a mark for each task: the token that is committed next (claim C1) and the "
    "position; and what SPOT makes of it, the share of its drafts at 2 rows, one a pass, that are accepted."
)


def transfer(parts: Sequence[Part]) -> Figure | None:
    """Pooled pass reduction of every drafter on every target at one budget, 9 rows or else the largest; in brackets its
    share of the oracle's. A panel for each temperature and rule."""
    budgets = {line.rows for part in parts for line in part.lines}
    rows = 9 if 9 in budgets else max(budgets, default=1)
    panels: dict[tuple[float, str], dict[tuple[str, str], Line]] = {}
    for part in parts:
        found = {
            (name, where(part, "\n")): line
            for name, lines in by_drafter(part.lines).items()
            for line in lines
            if line.rows == rows and name != "perfect"
        }
        if found:
            panels.setdefault((part.setting.temperature, part.setting.rule), {}).update(found)
    names = list(dict.fromkeys(name for panel in panels.values() for name, _ in panel))
    targets = list(dict.fromkeys(target for panel in panels.values() for _, target in panel))
    if len(targets) < 2:
        return None
    figure = Figure(figsize=(2 * WIDTH, (0.2 * len(names) + 0.55) * len(panels) + 0.2), layout="constrained")
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
        axes.set_xticks(range(len(targets)), targets, fontsize=6.5)
        axes.set_yticks(range(len(names)), names)
        axes.set_title(f"T = {temperature:g}, {rule}, {rows} rows")
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
    return figure


def stale(parts: Sequence[Part]) -> Figure | None:
    """What the pass before already knew: the token, and the position (claim C1). A panel for each rule."""
    known = [part for part in parts if any(not math.isnan(base.stale_tokens) for base in part.baselines)]
    if not known:
        return None
    labels = list(dict.fromkeys(_label(part) for part in known))
    rules = list(dict.fromkeys(part.setting.rule for part in known))
    columns = min(2, len(rules))
    rows = -(-len(rules) // columns)
    figure = Figure(figsize=(WIDTH * columns, (0.17 * len(labels) + 0.35) * rows + 0.6), layout="constrained")
    places = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    label_x(places, len(rules), "share of steps")
    for rule, axes in zip(rules, places.flat, strict=False):
        of_rule = [(labels.index(_label(part)), part) for part in known if part.setting.rule == rule]
        tasks = [(y, base) for y, part in of_rule for base in part.baselines if not math.isnan(base.stale_tokens)]
        kinds = [
            ("token already right", "#0072B2", "o", [(base.stale_tokens, y) for y, base in tasks]),
            ("position already right", "#D55E00", "s", [(base.stale_choices, y) for y, base in tasks]),
            ("SPOT's draft right", "#000000", "|", [(x, y) for y, part in of_rule for x in _first_drafts(part)]),
        ]
        for label, colour, marker, marks in kinds:
            if marks:
                size = 8 if marker == "|" else 3.5
                axes.plot(
                    *zip(*marks, strict=True),
                    ls="",
                    color=colour,
                    marker=marker,
                    ms=size,
                    alpha=0.7,
                    clip_on=False,
                    label=label,
                )
        axes.set_title(rule)
        axes.set_xlim(0, 1)
    places[0][0].set_yticks(range(len(labels)), labels, fontsize=7)
    places[0][0].set_ylim(len(labels) - 0.5, -0.5)
    legend(figure, places.flat, 2 if columns == 1 else 3)
    return figure


def _label(part: Part) -> str:
    return f"{where(part)}, T = {part.setting.temperature:g}"


def _first_drafts(part: Part) -> Iterator[float]:
    """For each task, the share of the drafts at 2 rows that are accepted: a pass has one, or none to make."""
    frame = part.frame[part.frame["drafter"].isin(["spot", "spot-sets"]) & (part.frame["rows"] == 2)]
    for _, own in frame.groupby("task", sort=False):
        if drafts := int(own["rows_used"].sum() - own["verify_passes"].sum()):
            yield sum(map(sum, own["depths"])) / drafts


@dataclass(frozen=True)
class Decode:
    """The kept passes of one prompt, decoded plainly and with a drafter."""

    part: Part
    task: str
    doc_id: int
    drafter: str
    rows: int
    plain: list[Step]
    drafted: list[Step]


def pick(store: Store, cells: Sequence[Cell], parts: Sequence[Part]) -> Decode | None:
    """The first setting's first prompt with SPOT, or else with the best drafter, at 9 rows or else the most."""
    for part in parts:
        rivals = {name: lines for name, lines in by_drafter(part.lines).items() if name not in (*BOUNDS, "random")}
        if not rivals:
            continue
        name = next(
            (one for one in rivals if one in ("spot", "spot-sets")),
            max(rivals, key=lambda name: rivals[name][-1].reduction.value),
        )
        rows = next((line.rows for line in rivals[name] if line.rows == 9), rivals[name][-1].rows)
        at = part.frame[(part.frame["drafter"] == name) & (part.frame["rows"] == rows)].iloc[0]
        base = part.frame[(part.frame["drafter"] == "none") & (part.frame["task"] == at["task"])]
        ids = {cell.id: cell for cell in cells}
        if base.empty:
            continue
        kept = [
            [step for step in store.steps(ids[cell_id]) if step.doc_id == at["doc_id"] and step.committed]
            for cell_id in (base.iloc[0]["cell_id"], at["cell_id"])
        ]
        if all(kept):
            return Decode(part, str(at["task"]), int(at["doc_id"]), name, rows, *kept)
    return None


def caption(one: Decode) -> str:
    return (
        f"One decode ({where(one.part)}, {one.task} prompt {one.doc_id}, T = {one.part.setting.temperature:g}, "
        f"{one.part.setting.rule}): what each pass did, position by position, plainly and with {one.drafter} at "
        f"{one.rows} rows. Lines part blocks; of the rejected drafts one path is shown."
    )


def decode(one: Decode) -> Figure:
    """Position by pass: the order of the commits, what was drafted, and what of it was accepted."""
    last = max(step.block for step in one.plain[:LONGEST])
    if len(one.plain) > LONGEST and last > one.plain[0].block:
        last -= 1  # a block is shown whole, or not at all
    size = 1 + max(i for step in one.plain for positions in step.committed for i in positions)
    methods = [("plain", one.plain), (f"{one.drafter}, {one.rows} rows", one.drafted)]
    shown = [(title, [step for step in steps if step.block <= last]) for title, steps in methods]
    widths = [len(steps) + 1 for _, steps in shown]
    positions = [step.block * size + i for _, steps in shown for step in steps for some in step.committed for i in some]
    figure = Figure(figsize=(WIDTH, 0.055 * (max(positions) - min(positions)) + 1.3), layout="constrained")
    places = figure.subplots(1, 2, sharey=True, width_ratios=widths)
    for axes, (title, steps) in zip(places, shown, strict=True):
        kinds = [
            ("its own step", "#000000", "o", 9, [(s, i) for s in steps for i in s.committed[-1]]),
            ("accepted draft", "#009E73", "s", 9, [(s, i) for s in steps for some in s.committed[:-1] for i in some]),
            ("rejected draft", "#D55E00", "x", 7, [(s, i) for s in steps for i in s.rejected]),
        ]
        for label, colour, marker, area, marks in kinds:
            axes.scatter(
                [step.number + 1 for step, _ in marks],
                [step.block * size + i for step, i in marks],
                color=colour, marker=marker, s=area, linewidths=0.8 if marker == "x" else 0, label=label,
            )  # fmt: skip
        for block in range(min(positions) // size + 1, last + 1):
            axes.axhline(block * size - 0.5, color="#888888", lw=0.5)
        axes.set_xlim(0.4, max(len(steps), 1) + 0.6)
        axes.set_title(title, fontsize=7)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("pass")
    places[0].set_ylim(max(positions) + 0.7, min(positions) - 0.7)
    places[0].set_ylabel("position")
    legend(figure, [places[1]])
    return figure
