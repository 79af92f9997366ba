"""`spotbench check`: whether a grid's results may be quoted."""

from collections.abc import Iterable
from dataclasses import dataclass

from suite.cells import Cell
from suite.store import Store

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
    return [fault for cell in cells for fault in _faults(store, cell)]


def _faults(store: Store, cell: Cell) -> list[Fault]:
    if not store.done(cell):
        failures = store.failed(cell)
        if failures:
            return [Fault(cell, "failed", f"{failures[-1].error}: {failures[-1].message} ({len(failures)} attempts)")]
        return [Fault(cell, "incomplete", "not run yet")]
    finished = store.read(cell)
    summary, faults = finished.result.summary, []
    if summary.bugs:
        first = next(s for s in finished.samples if s.divergence and not s.divergence.tie)
        at = first.divergence
        assert at is not None
        faults.append(
            Fault(
                cell,
                "lossy",
                f"{summary.bugs} of {summary.prompts} answers differ; first: prompt {first.doc_id}, block {at.block}, "
                f"step {at.step}, position {at.position}, token gap {at.token_gap:.2g}, "
                f"confidence gap {at.confidence_gap:.2g}",
            )
        )
    degenerate = sum(s.empty or s.repetitive for s in finished.samples)
    if degenerate > DEGENERATE_SHARE * summary.prompts:
        faults.append(
            Fault(cell, "degenerate", f"{summary.empty} empty and {summary.repetitive} repetitive of {summary.prompts}")
        )
    return faults
