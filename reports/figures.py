"""The figures of a grid: each function takes settings and gives one matplotlib figure, or None where there is no data.

Settings that share their axes are panels of one figure. The same tables give the same bytes.
"""

import io
import math
from collections.abc import Callable, Iterator, Sequence

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from reports import maps
from reports.maps import Decode
from reports.pooled import Part, slug
from reports.style import (
    BOUNDS,
    RC,
    WIDTH,
    Drawing,
    all_drafters,
    by_drafter,
    curve,
    label_x,
    layout,
    legend,
    look,
    panels,
    rows_axis,
    where,
)
from suite.measure import costmodel

PHASES = (("verify", "#0072B2", ""), ("draft", "#E69F00", "////"), ("host", "#BBBBBB", "...."))


def draw(parts: Sequence[Part], decode: Decode | None = None) -> list[Drawing]:
    """Every figure that there is data for."""
    with mpl.rc_context(RC):
        return list(_all(parts, decode))


def files(drawings: Sequence[Drawing]) -> Iterator[tuple[str, bytes]]:
    """Each as PDF and PNG: the file's name and its content."""
    for one in drawings:
        for ending, metadata in (("pdf", {"CreationDate": None}), ("png", {"Software": None})):
            content = io.BytesIO()
            with mpl.rc_context(RC):
                one.figure.savefig(content, format=ending, metadata=metadata)
            yield f"{one.name}.{ending}", content.getvalue()


def _all(parts: Sequence[Part], decode: Decode | None) -> Iterator[Drawing]:
    def drawn(name: str, figure: Figure | None, caption: str, of: Sequence[Part]) -> Iterator[Drawing]:
        if figure:
            yield Drawing(name, caption + _origin(of), figure)

    drafted = [part for part in parts if by_drafter(part.lines)]
    for rule in dict.fromkeys(part.setting.rule for part in drafted):
        sheet = [part for part in drafted if part.setting.rule == rule]
        for kind, make, caption in SHEETS:
            yield from drawn(slug(f"{kind}-{rule}"), make(sheet), caption.format(rule=rule), sheet)
        for temperature in dict.fromkeys(part.setting.temperature for part in sheet):
            some = [part for part in sheet if part.setting.temperature == temperature]
            yield from drawn(slug(f"depth-t{temperature:g}-{rule}"), depth(some), DEPTH.format(rule=rule), some)
    yield from drawn("plane", plane(parts), PLANE, parts)
    yield from drawn("transfer", maps.transfer(parts), maps.TRANSFER, drafted)
    yield from drawn("stale", maps.stale(parts), maps.STALE, parts)
    if decode:
        yield from drawn("decode", maps.decode(decode), maps.caption(decode), [decode.part])


def _origin(parts: Sequence[Part]) -> str:
    """What a reader must know of where the figures come from."""
    tiny = sorted({part.setting.target for part in parts if part.setting.tiny})
    replayed = " From traces, without the target." if all(part.setting.replayed for part in parts) else ""
    return replayed + (f" Tiny look-alikes, not published models: {', '.join(tiny)}." if tiny else "")


def reduction(parts: Sequence[Part]) -> Figure | None:
    """Pass reduction against rows, where there are several budgets, with 95 % bands; the bounds are dashed."""
    shown = all_drafters(parts)
    budgets = _budgets(parts)
    if len(budgets) < 2:
        return None
    figure, places = panels(parts, 2.1, "rows a pass", sharex=True, sharey=True)
    for panel in places:
        for name, lines in by_drafter(panel.part.lines).items():
            rows = [line.rows for line in lines]
            colour = curve(panel.axes, name, shown, rows, [line.reduction.value for line in lines])
            low, high = [line.reduction.low for line in lines], [line.reduction.high for line in lines]
            panel.axes.fill_between(rows, low, high, color=colour, alpha=0.15, linewidth=0)
        rows_axis(panel.axes, budgets)
        panel.axes.set_ylim(bottom=1)
    figure.supylabel("pass reduction", fontsize=8)
    legend(figure, [panel.axes for panel in places])
    return figure


def depth(parts: Sequence[Part], deepest: int = 8) -> Figure | None:
    """How deep drafts are accepted at the largest budget: the share of passes, and among those that came so far."""
    shown = all_drafters(parts)
    if not shown:
        return None
    figure = Figure(figsize=(WIDTH, min(1.35, 8 / len(parts)) * len(parts) + 0.9), layout="constrained")
    places = figure.subplots(len(parts), 2, sharex=True, sharey=True, squeeze=False)
    for part, (left, right) in zip(parts, places, strict=True):
        for name, lines in by_drafter(part.lines).items():
            for axes, shares in ((left, lines[-1].acceptance.marginal), (right, lines[-1].acceptance.conditional)):
                kept = shares[:deepest]
                curve(axes, name, shown, range(1, len(kept) + 1), kept)
        left.set_ylabel(where(part, "\n"), fontsize=7)
    setting = parts[0].setting
    places[0][0].set_ylim(0, 1.02)
    places[0][0].set_xticks(range(1, deepest + 1))
    places[0][0].set_title("share of passes")
    places[0][1].set_title("given one fewer")
    title = f"T = {setting.temperature:g}, {setting.rule}, {_budgets(parts)[-1]} rows"
    figure.suptitle(title, fontsize=8, x=0.02, ha="left")
    label_x(places, places.size, "accepted drafts or more")
    legend(figure, places[0])
    return figure


def time(parts: Sequence[Part]) -> Figure | None:
    """Where the time of a token goes: the plain decoder, and every drafter at its fastest budget."""
    parts = [part for part in parts if not part.setting.replayed]
    if not parts:
        return None
    most = max(len(by_drafter(part.lines)) for part in parts) + 1
    figure, places = panels(parts, 0.17 * most + 0.35, "ms a token", sharex=True)
    for panel in places:
        base = [line for line in panel.part.lines if line.drafter == "none"]
        best = [max(x, key=lambda line: line.tokens_per_s) for x in by_drafter(panel.part.lines).values()]
        lines, left = [*base, *best], [0.0] * len(base + best)
        for phase, colour, hatch in PHASES:
            spent = [1000 * getattr(line, f"{phase}_share") / line.tokens_per_s for line in lines]
            panel.axes.barh(
                range(len(lines)),
                spent,
                0.7,
                left=left,
                color=colour,
                hatch=hatch,
                edgecolor="white",
                lw=0,
                label=phase,
            )
            left = [a + b for a, b in zip(left, spent, strict=True)]
        for line in base:
            panel.axes.axvline(1000 / line.tokens_per_s, color="black", linewidth=0.6, linestyle=":")
        names = [line.drafter + (f", {line.rows} rows" if line.drafter != "none" else "") for line in lines]
        panel.axes.set_yticks(range(len(lines)), names, fontsize=7)
        panel.axes.set_title(f"{panel.part.setting.place}, T = {panel.part.setting.temperature:g}")
        panel.axes.invert_yaxis()
        panel.axes.grid(visible=False, axis="y")
    legend(figure, [places[0].axes], 3)
    return figure


def throughput(parts: Sequence[Part]) -> Figure | None:
    """Tokens/s against rows, measured and as the cost model has it, and how far the two are apart."""
    modelled = [(part, model) for part in parts if not part.setting.replayed and (model := predicted(part))]
    parts = [part for part, _ in modelled]
    budgets = _budgets(parts)
    if len(budgets) < 2:
        return None
    shown = all_drafters(parts)
    rows, columns = layout(parts)
    figure = Figure(figsize=(WIDTH * min(2, columns), 2.5 * rows + 0.6), layout="constrained")
    places = figure.subplots(2 * rows, columns, sharex=True, squeeze=False, height_ratios=[1.7, 1] * rows)
    for axes in places.flat:
        axes.set_visible(False)
    for n, (part, known) in enumerate(modelled):
        above, below = places[2 * (n // columns)][n % columns], places[2 * (n // columns) + 1][n % columns]
        above.set_visible(True)
        below.set_visible(True)
        above.set_title(part.setting.title)
        for name, lines in by_drafter(part.lines).items():
            budget = [line.rows for line in lines]
            guesses = [known[name, line.rows] for line in lines]
            colour, marker = look(name, shown)
            above.plot(
                budget, [line.tokens_per_s for line in lines], color=colour, marker=marker or "_", ls="", label=name
            )
            above.plot(budget, guesses, color=colour, lw=0.9, ls="--" if name in BOUNDS else "-")
            residual = [line.tokens_per_s / guess - 1 for line, guess in zip(lines, guesses, strict=True)]
            below.plot(budget, [100 * x for x in residual], color=colour, marker=marker or "_", lw=0.6)
        for line in part.lines:
            if line.drafter == "none":
                above.axhline(line.tokens_per_s, color="black", lw=0.6, ls=":")
        rows_axis(below, budgets)
        below.set_xlabel("rows a pass")
        below.axhline(0, color="black", lw=0.6)
        above.set_ylim(bottom=0)
        if not n % columns:
            above.set_ylabel("tokens/s")
            below.set_ylabel("measured over\npredicted [%]", fontsize=7)
    legend(figure, [places[0][0]])
    return figure


def predicted(part: Part) -> dict[tuple[str, int], float]:
    """Tokens/s of each drafter and budget: what a pass and a row cost is taken from all OTHER drafters of the bundle,
    and the drafter's own time is added."""
    taken: dict[tuple[str, int], list[pd.Series]] = {}
    for _, bundle in part.frame.groupby(["task", "seed"], sort=False):
        for drafter, own in bundle[bundle["drafter"] != "none"].groupby("drafter", sort=False):
            others = bundle[bundle["drafter"] != drafter]
            target_s = others["verify_s"] + others["host_s"]
            a, b = costmodel.fit(others["verify_passes"].tolist(), others["rows_used"].tolist(), target_s.tolist())
            seconds = own["draft_s"] + a * own["verify_passes"] + b * own["rows_used"]
            for rows, some in own.groupby("rows", sort=False):
                taken.setdefault((str(drafter), int(str(rows))), []).append(
                    pd.Series({"tokens": some["new_tokens"].sum(), "seconds": seconds[some.index].sum(skipna=False)})
                )
    totals = {at: sum(x["tokens"] for x in some) / sum(x["seconds"] for x in some) for at, some in taken.items()}
    return {} if any(math.isnan(x) for x in totals.values()) else totals


def plane(parts: Sequence[Part]) -> Figure | None:
    """Accuracy against speed of several rules, each with and without drafts. Speeds are absolute: rules are not decoded
    in one visit, so that no speed-up between them is formed."""
    scored = [part for part in parts if any(not math.isnan(line.accuracy.value) for line in part.lines)]
    if len({part.setting.rule for part in scored}) < 2:
        return None
    timed = not any(part.setting.replayed for part in scored)
    speed = "tokens/s" if timed else "tokens a pass"
    first = {(where(part), part.setting.temperature): part for part in reversed(scored)}
    figure, places = panels([first[at] for at in sorted(first)], 2.2, speed, sharey=True)
    rules = list(dict.fromkeys(part.setting.rule for part in scored))
    for panel in places:
        at = panel.part.setting
        panel.axes.set_title(f"{at.place}, T = {at.temperature:g}")
        for part in scored:
            if (where(part), part.setting.temperature) != (where(panel.part), at.temperature):
                continue
            colour = PALETTE[rules.index(part.setting.rule) % len(PALETTE)]
            for line in part.lines:
                x = line.tokens_per_s if timed else line.tokens_per_pass
                y = line.accuracy
                if line.drafter == "none":
                    panel.axes.errorbar(
                        x, y.value, [[y.value - y.low], [y.high - y.value]],
                        color=colour, marker="o", ls="", lw=0.8, capsize=2, label=part.setting.rule,
                    )  # fmt: skip
            for name, lines in by_drafter(part.lines).items():
                if name == ("spot" if part.setting.rule == "exact" else "spot-sets"):
                    speeds = [line.tokens_per_s if timed else line.tokens_per_pass for line in lines]
                    panel.axes.plot(
                        speeds, [line.accuracy.value for line in lines], color=colour, marker="^", ls="-", lw=0.8,
                        markerfacecolor="white", label=f"{part.setting.rule} + {name}",
                    )  # fmt: skip
        panel.axes.set_xlim(left=0)
        panel.axes.set_ylim(top=min(1.03, panel.axes.get_ylim()[1]))
    figure.supylabel("accuracy", fontsize=8)
    legend(figure, [panel.axes for panel in places], 3 if figure.get_figwidth() <= WIDTH else 4)
    return figure


PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D46"]


def _budgets(parts: Sequence[Part]) -> list[int]:
    return sorted({line.rows for part in parts for lines in by_drafter(part.lines).values() for line in lines})


SHEETS: list[tuple[str, Callable[[Sequence[Part]], Figure | None], str]] = [
    (
        "reduction",
        reduction,
        "Pass reduction over {rule} decoding by rows a pass: geometric means over prompts, paired, with 95 % bootstrap "
        "bands. Dashed: upper bounds, the true order with stale tokens (oracle) and with the right ones (perfect).",
    ),
    (
        "time",
        time,
        "Where the time of a token goes under {rule} decoding, prefill excluded: every drafter at its fastest budget. "
        "Dotted: the plain decoder.",
    ),
    (
        "throughput",
        throughput,
        "Throughput by rows a pass under {rule} decoding: measured (marks) and predicted (lines) from seconds a "
        "pass and a row as all other drafters of the bundle had them, plus the drafter's own time; below, the "
        "residual. Dotted: "
        "the plain decoder. Dashed: bounds.",
    ),
]
DEPTH = (
    "Accepted depth at the largest budget under {rule} decoding: the share of passes that accept so many drafts or "
    "more (left), and among those that accept one fewer (right)."
)
PLANE = (
    "Quality and speed: accuracy with 95 % intervals against speed, by commit rule. Triangles: the same rule with "
    "drafts, a mark for each budget, which changes no answer."
)
