"""Results of drafters from traces: the same schema as live ones, without a target.

Replayed cells have `device = "replay"`. Passes, rows and accepted depths are those of a live decode; of the times there
is the drafter's own only. A trace that is missing is recorded first, where the target's weights are here.
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import drafters
import tasks.harness
from drafters.base import Drafter, DraftView
from suite import records, trace
from suite.cells import Bundle, Cell
from suite.decoding.decode import Pass
from suite.decoding.state import State, Visit
from suite.errors import UserError
from suite.measure import degenerate
from suite.measure.passes import as_steps
from suite.records import Sample, Step
from suite.runner import STEPS_KEPT, Progress, fail, manifest, room, session_of, turns_of
from suite.store import Store
from suite.targets import catalog, checkpoint
from suite.trace import PromptTrace, Split, Trace
from tasks.harness import Task


def record_bundle(
    bundle: Bundle, root: Path, allow_code_execution: bool, progress: Progress, split: Split = "test"
) -> Trace:
    """The trace of a bundle's baseline, with the prompts it asks for; those that are missing are decoded."""
    cell = live(bundle.baseline)
    asked = replace(cell, prompts=0) if split == "train" else cell  # the train split may be the longer one
    session = session_of(replace(bundle, baseline=asked), allow_code_execution, scored=split == "test")
    wanted = trace.header(cell, session.target, session.weights, session.task, session.policy, split)
    found = trace.open_trace(root, cell, split, wanted)
    requests = session.requests
    if split == "train":
        requests = session.task.train_requests(session.target.chat, cell.prompts or None)
    trace.record(found, session.target, requests, session.task, lambda n, of: progress(f"tracing {cell.task}", n, of))
    return found


def live(cell: Cell) -> Cell:
    """The cell that a replayed one stands for, on the CPU."""
    return replace(cell, device="cpu") if cell.device == "replay" else cell


def replay_bundle(
    bundle: Bundle,
    store: Store,
    root: Path,
    allow_code_execution: bool,
    progress: Progress,
    leave: Collection[str] = (),
) -> bool:
    """Replay what is missing of a bundle, but for the cells whose ids are in `leave`; True when every cell is done.

    A failing drafter is recorded and left out.
    """
    if turns := turns_of(bundle, store, leave):
        started = datetime.now(UTC).isoformat(timespec="seconds")
        with store.watch(bundle, uuid.uuid4().hex) as at:
            at(bundle.baseline)
            task = tasks.harness.load(bundle.baseline.task)
            found = _trace(bundle, task, root, allow_code_execution, progress)
            prompts = [found.read(n) for n in (range(bundle.baseline.prompts) or found.doc_ids())]
            groups: dict[tuple[int, str], list[Cell]] = {}  # of one turn and drafter
            for n, cells in enumerate(turns):
                for cell in cells:
                    groups.setdefault((n, cell.drafter), []).append(cell)
            for n, ((_, name), cells) in enumerate(groups.items()):
                progress(f"{task.name} T={bundle.baseline.temperature:g} {name}", n, len(groups))
                at(*cells)
                try:
                    made = _samples(cells, dict(bundle.files), prompts, found)
                except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a drafter does, the others go on
                    for cell in cells:
                        fail(store, cell, error)
                    continue
                for cell in cells:
                    told = manifest(cell, _settings(cell, found, task.metric), started)
                    store.finish(cell, told, *made[cell], task.metric)
            progress(task.name, len(groups), len(groups))
    if complete := all(map(store.done, bundle.cells)):
        store.clear(bundle)
    return complete


def _trace(bundle: Bundle, task: Task, root: Path, allow_code_execution: bool, progress: Progress) -> Trace:
    """A trace with all the prompts of the bundle. Raises UserError on one of another version of task or weights."""
    cell = live(bundle.baseline)
    try:
        found = trace.open_trace(root, cell, "test")
    except trace.MissingTraceError:
        return record_bundle(bundle, root, allow_code_execution, progress)
    if not cell.prompts or not all(found.has(doc_id) for doc_id in range(cell.prompts)):
        return record_bundle(bundle, root, allow_code_execution, progress)
    wanted = replace(found.header, task_version=task.version, max_new_tokens=room(cell, task))
    if (weights := _weights_here(bundle)) is not None:
        wanted = replace(wanted, weights=weights)
    return trace.open_trace(root, cell, "test", wanted)


def _weights_here(bundle: Bundle) -> str | None:
    """The hash of the target's checkpoint; None where it is not on this machine, which a replay does not need."""
    try:
        spec = catalog.spec(bundle.baseline.target, bundle.source)
        checkpoint.locate(spec, fetch=False)
    except UserError:
        return None
    return checkpoint.weights_hash(spec)


class _Remembering(Drafter):
    """A nested drafter, asked once at each state: for the first budget that comes there, which must be the largest."""

    def __init__(self, drafter: Drafter) -> None:
        self.name, self.needs_future = drafter.name, drafter.needs_future
        self._drafter = drafter

    def start(self, future: Sequence[Visit]) -> None:
        self._drafter.start(future)

    def forget(self) -> None:
        self._known: dict[Visit, list[State]] = {}

    def propose(self, view: DraftView, rows: int) -> list[State]:
        at = (view.block, view.state)
        if at not in self._known:
            self._known[at] = self._drafter.propose(view, rows)
        return self._known[at][:rows]


def _samples(
    cells: Sequence[Cell], files: Mapping[str, str], prompts: Sequence[PromptTrace], found: Trace
) -> dict[Cell, tuple[list[Sample], list[Step]]]:
    """Of one drafter at several budgets. Where it is asked once for all, its time is that of the largest."""
    drafter = drafters.make(cells[0].drafter, files.get(cells[0].drafter, ""))
    drafter.attach(cells[0].target, found.header.policy)
    descending = sorted(cells, key=lambda cell: -cell.rows)
    once = _Remembering(drafter) if drafter.nested else None
    made: dict[Cell, tuple[list[Sample], list[Step]]] = {cell: ([], []) for cell in cells}
    for n, one in enumerate(prompts):
        if once:
            once.forget()
        for cell in descending:
            passes = trace.replay(one, found.header, once or drafter, cell.rows)
            if once and cell != descending[0]:
                passes = [replace(p, draft_s=0.0) for p in passes]
            samples, steps = made[cell]
            samples.append(_sample(cell, one, passes))
            if n < STEPS_KEPT:
                steps += as_steps(one.doc_id, passes, one.visits)
    return made


def _sample(cell: Cell, one: PromptTrace, passes: Sequence[Pass]) -> Sample:
    return Sample(
        doc_id=one.doc_id,
        prompt_hash=one.prompt_hash,
        prompt_tokens=one.prompt_tokens,
        tokens=one.tokens,
        text=one.text,
        finish=one.finish,
        prefill_passes=one.prefill_passes,
        verify_passes=len(passes),
        commit_passes=one.commit_passes,
        rows=sum(p.rows for p in passes),
        depths=[p.depth for p in passes],
        prefill_s=0.0,
        draft_s=sum(p.draft_s for p in passes),
        verify_s=0.0,
        host_s=0.0,
        baseline_passes=len(one.steps) + one.commit_passes,
        baseline_s=0.0,
        exact_match=True,
        empty=degenerate.is_empty(one.text),
        repetitive=degenerate.is_repetitive(one.tokens, one.finish),
        scores=one.scores,
        stale=records.Stale(**one.stale) if cell.is_baseline else None,
        question=one.question,
    )


def _settings(cell: Cell, found: Trace, metric: str) -> dict[str, Any]:
    header = found.header
    return {
        "block_size": header.block_size,
        "max_new_tokens": header.max_new_tokens,
        "confidence": header.confidence,
        "family": catalog.spec(cell.target).family.name if cell.target in catalog.CATALOG else "",
        "task_version": header.task_version,
        "metric": metric,
        "weights": header.weights,
        "tiny": cell.target in catalog.CATALOG and catalog.spec(cell.target).tiny,
        "replayed": True,
        "trace_dtype": header.dtype,
    }
