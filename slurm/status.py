"""`spotbench status`: one screen for a sweep, and every failure with its reason and its log."""

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from slurm.cluster import Resources
from slurm.submit import Chunk, Plan, Submitted
from slurm.survey import State, Survey, survey
from suite import deaths
from suite.cells import Bundle, Cell
from suite.machine import code_hash
from suite.store import Store

WINDOW_S = 3600.0
"""Throughput is that of the last hour, or of the time since the first of its cells was done, if that is less."""
WAIT_S = (10.0, 60.0)
"""Between two looks: at first, and at most."""
COLOURS = {State.DONE: "green", State.FAILED: "red", State.LOST: "red", State.UNKNOWN: "yellow"}
EXIT = re.compile(r"Exited with exit code (\d+)|(Killed|Terminated|Segmentation fault|Aborted)\b")


@dataclass(frozen=True)
class Trouble:
    """Cells of one bundle that came to the same end. `ending`: how the job ended, as far as its log tells; `log`: None
    where there was no job."""

    bundle: Bundle
    cells: tuple[Cell, ...]
    state: State
    reason: str
    ending: str
    log: Path | None
    last: str


def screens(bundles: Sequence[Bundle], store: Store) -> Iterator[RenderableType]:
    """One look after another, until nothing is at work any more. Slurm is asked once for each."""
    wait = WAIT_S[0]
    while True:
        found = survey(bundles, store)
        yield screen(bundles, found, time.time())
        if not {State.RUNNING, State.PENDING, State.UNKNOWN} & set(found.states.values()):
            return
        time.sleep(wait)
        wait = min(WAIT_S[1], wait * 1.2)


def planned(plan: Plan) -> RenderableType:
    """What would be submitted, a row for each target."""
    gpus = any(chunk.resources.gpus for chunk in plan.chunks)
    table = _table(["target"], "cells", "bundles", "arrays", "GPUs", "time limit", "at most", "about")
    rows: dict[tuple[str, Resources], list[Chunk]] = {}
    for chunk in plan.chunks:
        rows.setdefault((", ".join(chunk.targets), chunk.resources), []).append(chunk)
    for (target, asked), chunks in rows.items():
        each = asked.gpus or asked.cpus
        table.add_row(
            escape(target),
            str(sum(chunk.wanted for chunk in chunks)),
            str(sum(len(chunk.bundles) for chunk in chunks)),
            str(len(chunks)),
            str(asked.gpus),
            asked.time,
            f"{sum(chunk.most_hours for chunk in chunks) * each:.1f} h",
            f"{sum(chunk.hours for chunk in chunks) * each:.1f} h",
        )
    states = Counter(plan.survey.states.values())
    held = ", ".join(f"{states[state]} {state}" for state in State if states[state])
    lines = [f"{len(plan.survey.states)} cells: {held}"]
    if plan.chunks:
        unit = "GPU hours" if gpus else "core hours"
        lines.append(
            f"GPUs and time limit: of a job; hours: {unit}, at most by the time limits, about by suite/estimate.py"
        )
    else:
        lines.append("nothing to submit" + ("; --retry takes what failed" if states[State.FAILED] else ""))
    if plan.later:
        lines.append(f"{plan.later} bundles are left for later: the queue has no room for them (max_queued)")
    return Group(*([table] if plan.chunks else []), *map(Text, lines))


def submitted(done: Submitted) -> Iterator[str]:
    """What Slurm took, line by line."""
    for array in done.submission.arrays:
        if array.job:
            yield f"job {array.job}: {len(array.bundles)} bundles"
    if done.submission.report:
        yield f"job {done.submission.report}: the report, once they have ended"
    yield f"logs: {escape(str(done.submission.logs))}"


def screen(bundles: Sequence[Bundle], found: Survey, now: float) -> RenderableType:
    """`now` [s since 1970]."""
    parts: list[RenderableType] = [counts(bundles, found), Text(pace(found, now))]
    if found.fault:
        parts.append(Text(f"unknown: {found.fault}", "yellow"))
    if note := other_code(found):
        parts.append(Text(note, "yellow"))
    for one in troubles(bundles, found):
        parts.append(Text(""))
        parts.extend(told(one))
    return Group(*parts)


def counts(bundles: Sequence[Bundle], found: Survey) -> Table:
    """Cells in each state, a row for each target and task; `begun`: prompts that unfinished bundles already have."""
    tally: dict[tuple[str, str], Counter[State]] = {}
    begun: Counter[tuple[str, str]] = Counter()
    for bundle in bundles:
        key = (bundle.baseline.target, bundle.baseline.task)
        tally.setdefault(key, Counter()).update(found.states[cell.id] for cell in bundle.cells)
        if bundle.id in found.census.begun:
            begun[key] += len({visit.doc_id for visit in found.store.visits(bundle)})
    shown = [state for state in State if state != State.UNKNOWN or any(State.UNKNOWN in row for row in tally.values())]
    table = _table(["target", "task"], "cells", *shown, "begun")
    for (target, task), row in tally.items():
        table.add_row(escape(target), escape(task), *_figures(row, shown), str(begun[target, task] or "-"))
    if len(tally) > 1:
        table.add_row("all", "", *_figures(sum(tally.values(), Counter()), shown), str(begun.total() or "-"))
    return table


def pace(found: Survey, now: float) -> str:
    """Throughput, and how long the rest takes at it."""
    states = Counter(found.states.values())
    rest = len(found.states) - states[State.DONE] - states[State.FAILED]
    times = [found.census.done[cell] for cell in found.states if cell in found.census.done]
    recent = [when for when in times if now - WINDOW_S <= when <= now]
    line = f"{states[State.DONE]} of {len(found.states)} cells are done"
    if not rest or not recent or now - min(recent) < 1:
        return line
    rate = len(recent) / (now - min(recent))
    return f"{line}, {rate * 3600:.0f} an hour lately; at that {_duration(rest / rate)} for the {rest} to come"


def other_code(found: Survey) -> str:
    """A word on jobs whose code is not what is here now."""
    last = found.submissions[-1] if found.submissions else None
    if last is None or last.code == code_hash():
        return ""
    return f"the code here is {code_hash()}; the jobs of {last.id} run {last.code}, as it was submitted"


def troubles(bundles: Sequence[Bundle], found: Survey) -> Iterator[Trouble]:
    """All that failed or was lost, cells with the same reason together."""
    for bundle in bundles:
        reasons: dict[tuple[State, str], list[Cell]] = {}
        for cell in bundle.cells:
            if (state := found.states[cell.id]) in (State.FAILED, State.LOST):
                reason = _reason(bundle, cell, found) if state == State.FAILED else _fate(bundle, found)
                reasons.setdefault((state, reason), []).append(cell)
        if reasons:
            log = _log(bundle, found)
            last, ending = _end_of(log)
            for (state, reason), cells in reasons.items():
                yield Trouble(bundle, tuple(cells), state, reason, ending, log, last)


def told(one: Trouble) -> Iterator[Text]:
    names = ", ".join(f"{cell.drafter} r{cell.rows}" for cell in one.cells)
    yield Text(f"{one.state} ", "red").append(f"{one.bundle.title}: {names}", "default")
    yield Text("  " + "; ".join(filter(None, [one.reason, one.ending])))
    if one.log:
        yield Text(f"  {one.log}", no_wrap=True, overflow="ignore")  # to be copied from the terminal
        yield Text(f"  > {one.last}", "dim", overflow="fold")


def _reason(bundle: Bundle, cell: Cell, found: Survey) -> str:
    died = found.store.deaths(bundle)[cell.id]
    failures = found.store.failed(cell)
    if died >= deaths.LIMIT:
        return f"killed {died} processes"
    return failures[-1].line if failures else "not run: its baseline failed"


def _fate(bundle: Bundle, found: Survey) -> str:
    """What is known of a job that left neither a result nor a failure."""
    job = found.job(found.places[bundle.id][-1])
    fate = f"its job ended as {job.state} on {job.node or 'no node'}" if job else "its job is gone from the queue"
    died = found.store.deaths(bundle)
    at = [f"{cell.drafter} r{cell.rows} (time {died[cell.id]})" for cell in bundle.cells if died[cell.id]]
    return f"{fate}; killed at {', '.join(at)}" if at else fate


def _log(bundle: Bundle, found: Survey) -> Path | None:
    for place in reversed(found.places.get(bundle.id, [])):
        if place.array.job:
            return place.submission.log(place.array, place.index)
    return None


def _end_of(log: Path | None) -> tuple[str, str]:
    """The last line of a log besides those of srun, and how the process ended if they tell."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log else []
    except OSError:
        lines = []
    lines = [line.strip() for line in reversed(lines) if line.strip()]
    last = next((line for line in lines if not line.startswith("srun: ")), lines[0] if lines else "(nothing)")
    for line in lines:
        if found := EXIT.search(line):
            return last, f"exit code {found[1]}" if found[1] else found[2].lower()
    return last, ""


def _table(names: Sequence[str], *figures: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _figures(row: Counter[State], shown: Sequence[State]) -> list[str]:
    return [str(row.total()), *(_coloured(state, row[state]) for state in shown)]


def _coloured(state: State, figure: int) -> str:
    colour = COLOURS.get(state)
    return f"[{colour}]{figure}[/]" if figure and colour else str(figure or "-")


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{max(1, minutes)} min"
