"""Leaderboard entries made from finished cells, and checked by making them once more from traces.

Unlike the page and the tables, this asks the drafters themselves, and so needs torch.
"""

import hashlib
import json
import math
import sys
import tempfile
from ast import Import, ImportFrom, parse
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

import drafters
from drafters.base import Drafter
from reports import entry as entries
from reports import frame, tables
from reports.entry import Budget, Card, Entry, Origin, Pooled, Result, Settings, Spread, Steps
from reports.tables import Line
from suite import grid, show, trace
from suite.cells import Cell
from suite.decoding.rules import parse_rule
from suite.errors import UserError
from suite.measure import passes
from suite.measure.stats import ratio
from suite.replay import live, replay_bundle
from suite.store import Store
from suite.targets import catalog, checkpoint, load
from suite.targets.base import Target

READ = ("drafters", "suite.decoding")
"""Packages whose modules are followed from a drafter's source: what can change what it proposes."""
MEASURED = ("origin", "draft_ms", "tokens_per_s", "speedup", "exact", "ties", "steps", "device", "dtype", "layout")
"""What is not the same when it is measured again, or not part of a replay."""
SHOWN_ROWS = 9
"""At most so many rows has the decode that an entry keeps."""

Progress = Callable[[str, int, int], None]


def make(
    store: Store, cells: Sequence[Cell], files: dict[str, str], traces: Path, progress: Progress, only: str = ""
) -> list[Entry]:
    """An entry for each drafter (or `only` one), target and rule of the cells that are finished.

    `files`: the `file.py:Class` of drafters that are one. `traces`: where the decode to be looked at comes from.
    Raises UserError where a drafter or a baseline is missing.
    """
    groups: dict[Settings, list[Cell]] = {}
    for cell in cells:
        if store.done(cell) and (cell.is_baseline or only in ("", cell.drafter)):
            groups.setdefault(_settings(cell), []).append(cell)
    made: list[Entry] = []
    for n, (settings, group) in enumerate(groups.items()):
        progress(f"{settings.target} {settings.rule}", n, len(groups))
        made += _of_group(store, settings, group, files, traces)
    progress("", len(groups), len(groups))
    return made


def validate(entry: Entry, traces: Path, file: str, allow_code_execution: bool, progress: Progress) -> None:
    """Make an entry again from the traces, which are recorded where they are missing.

    `file`: the `file.py:Class` of a drafter that is one. Raises UserError with the first field that differs.
    """
    settings, name = entry.settings, entry.drafter
    for hole in entries.holes(entry):
        raise UserError(f"incomplete: {hole}")
    if (here := drafters.known(file or name)) != name:
        raise UserError(f"stale: {file} is now {here}, the entry is of {name}")
    _same("weights", entry.weights, checkpoint.weights_hash(catalog.spec(settings.target)), "stale: ")
    drafter = _attached(name, file, settings, entry.temperatures[0])
    _same("code", entry.code, code_hash(drafter), "stale: ")
    _same("card", entry.card.model_dump(), _card(name, drafter).model_dump(), "stale: ")
    allow = allow_code_execution or catalog.spec(settings.target).tiny  # as the shipped grids do, in the sandbox
    wanted = grid.of(
        name="validate",
        targets=[settings.target],
        tasks=list(dict.fromkeys(result.task for result in entry.results)),
        temperatures=entry.temperatures,
        rules=[settings.rule],
        seeds=[settings.seed],
        drafters=[file or name],
        rows=[budget.rows for budget in entry.results[0].budgets],
        prompts=settings.prompts,
        top_k=settings.top_k,
        top_p=settings.top_p,
        commit=settings.commit,
        device="replay",
        allow_code_execution=allow,
        **({"contexts": [settings.context]} if settings.context != "cached" else {}),
    )
    with tempfile.TemporaryDirectory() as scratch:
        store = Store(Path(scratch))
        for bundle in wanted.bundles():
            replay_bundle(bundle, store, traces, allow, progress)
        for cell in wanted.cells():
            if failures := store.failed(cell):
                raise UserError(f"{cell.task} T={cell.temperature:g} {cell.rows} rows: {failures[-1].line}")
        (again,) = make(store, wanted.cells(), dict(wanted.bundles()[0].files), traces, lambda *_: None)
    for where, theirs, ours in _differences(entry.model_dump(), again.model_dump()):
        _same(where, theirs, ours)


def code_hash(drafter: Drafter) -> str:
    """Of the source of a drafter's class and of all that it imports of `READ`; the same where both are the same."""
    todo, seen = [cls.__module__ for cls in type(drafter).__mro__ if issubclass(cls, Drafter)], dict[str, str]()
    while todo:
        if (module := todo.pop()) not in seen:
            seen[module] = source = _source(module)
            todo += _imports(source)
    own = type(drafter).__module__
    parts = sorted(("" if name == own else name, source) for name, source in seen.items())
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _of_group(
    store: Store, settings: Settings, cells: Sequence[Cell], files: dict[str, str], traces: Path
) -> Iterator[Entry]:
    """The entries of the cells that share their settings: those of one target and rule."""
    measured = frame.build(store, cells)
    lines = _lines(measured)
    passes = {at: x["passes"].tolist() for at, x in measured.groupby(["task", "temperature", "drafter", "rows"])}
    bases = {(cell.task, cell.temperature): _baseline(store, cell) for cell in cells if cell.is_baseline}
    for name in dict.fromkeys(cell.drafter for cell in cells if not cell.is_baseline):
        mine = [cell for cell in cells if cell.drafter == name]
        if lost := [cell for cell in mine if (cell.task, cell.temperature) not in bases]:
            raise UserError(f"{lost[0].id}: its baseline is not done; run the grid first")
        results = []
        for task, temperature in dict.fromkeys((cell.task, cell.temperature) for cell in mine):
            base = bases[task, temperature]
            rows = sorted(x.rows for x in mine if (x.task, x.temperature) == (task, temperature))
            found = [((task, temperature, name, n), n) for n in rows]
            budgets = [_budget(n, passes[at], lines[at], base["baseline_passes"]) for at, n in found]
            results.append(Result(task=task, temperature=temperature, budgets=budgets, **base))
        manifest = store.read(mine[0]).manifest
        drafter = _attached(name, files.get(name, ""), settings, mine[0].temperature)
        yield Entry(
            version=entries.VERSION,
            drafter=name,
            card=_card(name, drafter),
            code=code_hash(drafter),
            settings=settings,
            weights=manifest["settings"]["weights"],
            tiny=manifest["settings"]["tiny"],
            origin=Origin(
                spotbench=manifest["versions"].get("spotbench", ""),
                code=manifest["code"],
                machine=store.root.parent.name,
                date=manifest["finished"][:10],
            ),
            results=results,
            pooled=[
                _pooled(results, temperature, n, lines["", temperature, name, n])
                for temperature, n in sorted({(cell.temperature, cell.rows) for cell in mine})
            ],
            steps=_steps(mine, drafter, traces),
        )


def _lines(measured: pd.DataFrame) -> dict[tuple[str, float, str, int], Line]:
    """The tables' lines by task (empty: all pooled), temperature, drafter and rows."""
    parts = [("", measured), *((str(task), part) for task, part in measured.groupby("task", sort=False))]
    return {
        (task, x.setting.temperature, line.drafter, line.rows): line
        for task, part in parts
        for x in tables.parts(part)
        for line in x.lines
    }


def _settings(cell: Cell) -> Settings:
    return Settings(**{name: getattr(cell, name) for name in Settings.model_fields})


def _attached(name: str, file: str, settings: Settings, temperature: float) -> Drafter:
    drafter = drafters.make(name, file)
    policy = catalog.spec(settings.target).policy(1, rule=parse_rule(settings.rule), temperature=temperature)
    drafter.attach(settings.target, policy)
    return drafter


def _card(name: str, drafter: Drafter) -> Card:
    card = drafter.card()
    return Card(
        about=drafters.about(name),
        kind=card.kind,
        parameters=card.parameters,
        home=card.home,
        tasks=list(card.tasks),
        split=card.split,
        data=card.data,
        needs_future=drafter.needs_future,
    )


def _baseline(store: Store, cell: Cell) -> dict[str, Any]:
    """Fields of a Result that are the baseline's."""
    read = store.read(cell)
    told, samples = read.manifest["settings"], read.samples
    asked = [[s.doc_id, s.prompt_hash, s.tokens, s.passes] for s in samples]
    of = [told["weights"], told["task_version"], cell.task, cell.temperature, cell.rule, cell.seed, asked]
    return {
        "task_version": told["task_version"],
        "trace": hashlib.sha256(json.dumps(of).encode()).hexdigest()[:16],
        "accuracy": None if read.result.summary.score is None else round(read.result.summary.score, 4),
        "degenerate": sum(s.empty or s.repetitive for s in samples),
        "baseline_passes": [s.passes for s in samples],
    }


def _budget(rows: int, passes: list[int], line: Line, baseline: list[int]) -> Budget:
    reduced = ratio(baseline, passes, [""] * len(passes))
    return Budget(
        rows=rows,
        passes=passes,
        pass_reduction=Spread.of(reduced, entries.DIGITS),
        rows_per_pass=round(line.rows_per_pass, 4),
        steps_per_pass=round(line.acceptance.steps_per_pass, 4),
        exact=round(line.exact_match * line.prompts),
        ties=line.ties,
        draft_ms=_timed(line.draft_ms),
        tokens_per_s=_timed(line.tokens_per_s),
        speedup=_speedup(line),
    )


def _pooled(results: Sequence[Result], temperature: float, rows: int, line: Line) -> Pooled:
    of = [(r, b) for r in results if r.temperature == temperature for b in r.budgets if b.rows == rows]
    reduced = Spread.of(entries.reduction(of), entries.DIGITS)
    return Pooled(temperature=temperature, rows=rows, pass_reduction=reduced, speedup=_speedup(line))


def _timed(value: float) -> float | None:
    """None where nothing was timed."""
    return None if math.isnan(value) or not value else round(value, 3)


def _speedup(line: Line) -> Spread | None:
    return None if math.isnan(line.speedup.value) else Spread.of(line.speedup)


def _steps(cells: Sequence[Cell], drafter: Drafter, traces: Path) -> Steps | None:
    """The first prompt's decode, of the first task and temperature; None where no trace of it was kept."""
    least = min(cell.rows for cell in cells)
    rows = max((cell.rows for cell in cells if cell.rows <= SHOWN_ROWS), default=least)
    cell = next(cell for cell in cells if cell.rows == rows)
    try:
        found = trace.open_trace(traces, live(cell), "test")
        one = found.read(0)
    except UserError:
        return None
    target = _tiny(cell.target)
    drafter.attach(cell.target, found.header.policy)
    made = passes.blocks(trace.replay(one, found.header, drafter, cell.rows), one.visits)

    def spell(token: int) -> str:
        return show.spelled(target, token) if target else str(token)

    return Steps(
        task=cell.task,
        temperature=cell.temperature,
        doc_id=one.doc_id,
        rows=cell.rows,
        blocks=[_block(block, spell) for block in made],
    )


@lru_cache(maxsize=1)
def _tiny(name: str) -> Target | None:
    """A tiny target, whose tokens can be spelled in no time; of others ids are shown."""
    spec = catalog.spec(name)
    return load.load(spec, "cpu") if spec.tiny else None


LETTERS: dict[passes.Kind, str] = {"own": "o", "accepted": "a", "rejected": "r", "open": "m", "earlier": "e"}


def _block(block: passes.Block, spell: Callable[[int], str]) -> entries.Block:
    return entries.Block(
        index=block.index,
        given=sum(token >= 0 for token in block.given),
        lines=[
            entries.Line(
                rows=line.rows,
                depth=line.depth,
                marks="".join(LETTERS[mark.kind] for mark in line.marks),
                tokens=[spell(mark.token) for mark in line.marks if mark.token >= 0],
            )
            for line in block.lines
        ],
        text=[spell(token) for token in block.state],
    )


def _source(module: str) -> str:
    """Of a module, or of a user's file, which is one that only this process knows."""
    loaded = sys.modules.get(module)
    return Path((loaded and loaded.__file__) or _found(module)).read_text(encoding="utf-8")


def _imports(source: str) -> Iterator[str]:
    """Modules of `READ` that a module imports when it is loaded."""
    for node in parse(source).body:
        if isinstance(node, Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ImportFrom) and node.module:
            named = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in named if name.startswith(tuple(f"{room}." for room in READ)) and _found(name))


def _found(module: str) -> str:
    """Its file; empty if there is no such module, as where a class is imported from one."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        return ""
    return spec.origin or "" if spec else ""


def _differences(theirs: Any, ours: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Leaves that differ, with their place, besides what is MEASURED anew."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in theirs:
            if key not in MEASURED:
                yield from _differences(theirs[key], ours.get(key), f"{where}.{key}" if where else key)
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for n, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from _differences(one, other, f"{where}[{_label(one) or n}]")
    elif theirs != ours:
        yield where, theirs, ours


def _label(value: Any) -> str:
    """What sets a part of an entry apart from its neighbours."""
    known = value if isinstance(value, dict) else {}
    told = [known.get("task", ""), *(f"{key}={known[key]}" for key in ("temperature", "rows") if key in known)]
    return " ".join(filter(None, told))


def _same(field: str, theirs: Any, ours: Any, kind: str = "") -> None:
    if theirs != ours:
        raise UserError(f"{kind}{field} is {theirs!r} in the entry, and {ours!r} here")
