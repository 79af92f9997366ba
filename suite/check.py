"""`spotbench check`: whether a grid's results may be quoted."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from suite.cells import Cell
from suite.errors import UserError
from suite.store import Finished, Store

DEGENERATE_SHARE = 0.1
"""A cell with more empty or endlessly repetitive answers than this measures nothing."""


@dataclass(frozen=True)
class Fault:
    """Why a cell may not be quoted."""

    cell: Cell
    kind: str
    detail: str


def check(store: Store, cells: Iterable[Cell]) -> list[Fault]:
    """Every fault of every cell; numeric ties are none."""
    faults: list[Fault] = []
    weights: dict[str, str] = {}  # of each target, those that its first cell was measured on
    versions: dict[str, str] = {}  # of each task, likewise
    for cell in cells:
        if not store.done(cell):
            faults.append(_unfinished(store, cell))
            continue
        try:
            finished = store.read(cell)
        except UserError as error:
            faults.append(Fault(cell, "damaged", str(error)))
            continue
        faults += _faults(finished)
        measured_on = finished.manifest["settings"]["weights"]
        if measured_on != weights.setdefault(cell.target, measured_on):
            detail = f"measured on weights {measured_on}, cells above on {weights[cell.target]}"
            faults.append(Fault(cell, "mixed", f"{detail}; remove the folders of one kind and run again"))
        scored_by = finished.manifest["settings"].get("task_version", "")
        if scored_by != versions.setdefault(cell.task, scored_by):
            detail = f"scored by {cell.task} {scored_by}, cells above by {versions[cell.task]}"
            faults.append(Fault(cell, "mixed", f"{detail}; spotbench rescore scores them alike"))
    return faults


def _unfinished(store: Store, cell: Cell) -> Fault:
    failures = store.failed(cell)
    if not failures:
        return Fault(cell, "incomplete", "not run yet")
    return Fault(cell, "failed", f"{failures[-1].line} ({len(failures)} attempt{'s' if len(failures) > 1 else ''})")


def _faults(finished: Finished) -> Iterator[Fault]:
    """Judged by the samples themselves."""
    cell, samples = finished.cell, finished.samples
    if len(samples) < max(1, cell.prompts):
        yield Fault(cell, "incomplete", f"{len(samples)} of {cell.prompts or 'all'} prompts")
    unanswered = [s for s in samples if s.error]
    if unanswered:
        first = unanswered[0]
        yield Fault(
            cell, "unanswered", f"{len(unanswered)} of {len(samples)}; first: prompt {first.doc_id}, {first.error}"
        )
    lossy = [s for s in samples if not s.error and not s.exact_match and not (s.divergence and s.divergence.tie)]
    if lossy:
        doc_id, at = lossy[0].doc_id, lossy[0].divergence
        where = (
            f"block {at.block}, step {at.step}, position {at.position}, token gap {at.token_gap:.2g}, "
            f"confidence gap {at.confidence_gap:.2g}"
            if at
            else "nobody knows where"
        )
        yield Fault(cell, "lossy", f"{len(lossy)} of {len(samples)} answers differ; first: prompt {doc_id}, {where}")
    empty, repetitive = sum(s.empty for s in samples), sum(s.repetitive for s in samples)
    if sum(s.empty or s.repetitive for s in samples) > DEGENERATE_SHARE * len(samples):
        yield Fault(cell, "degenerate", f"{empty} empty and {repetitive} repetitive of {len(samples)} answers")
