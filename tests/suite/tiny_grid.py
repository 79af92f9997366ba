"""A tiny grid that runs in seconds, the command line in this process, and results made without a model."""

import contextlib
import io
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from suite import cli, machine, records
from suite.cells import Bundle, Cell
from suite.records import Divergence, Manifest, Sample, Step
from suite.store import Store

AXES = {
    "name": '"tiny"',
    "targets": '["tiny-sdar-b16"]',
    "tasks": '["tiny-gsm"]',
    "temperatures": "[1.0]",
    "drafters": '["chain", "oracle"]',
    "rows": "[3]",
    "prompts": "2",
}
"""The keys of the tiny grid as TOML text."""

CLI = [sys.executable, "-c", "from suite.cli import main; main()"]
"""The command line as another process."""


@dataclass(frozen=True)
class Ran:
    """What a command came to."""

    code: int
    out: str
    err: str


def spotbench(*arguments: str | Path) -> Ran:
    """The command line, in this process."""
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["spotbench", *map(str, arguments)]
    code: Any = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        sys.argv = before
    return Ran(int(code), out.getvalue(), err.getvalue())


def grid_text(**changes: str | None) -> str:
    """The tiny grid as TOML; each change is TOML text, None leaves the key out."""
    keys = {**AXES, **changes}
    return "".join(f"{key} = {value}\n" for key, value in keys.items() if value is not None)


def store_of(results: Path, name: str = "tiny") -> Store:
    return Store(results / machine.name() / name)


def outcome(sample: Sample) -> Sample:
    """A sample without its times: what may not depend on when, where or how often a prompt was decoded."""
    return replace(sample, prefill_s=0, draft_s=0, verify_s=0, host_s=0, baseline_s=0)


def outcomes(store: Store, cells: list[Cell]) -> dict[str, list[Sample]]:
    return {cell.id: [outcome(sample) for sample in store.read(cell).samples] for cell in cells}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below `folder`, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@dataclass(frozen=True)
class TinyRun:
    """The tiny grid, run once and only read."""

    file: Path
    results: Path
    store: Store
    cells: list[Cell]


def made_cell(drafter: str = "chain", **changes: Any) -> Cell:
    fields: dict[str, Any] = {
        "target": "tiny-sdar-b16", "task": "tiny-gsm", "temperature": 1.0, "rule": "exact", "seed": 0,
        "drafter": drafter, "rows": 1 if drafter == "none" else 3, "prompts": 2,
    }  # fmt: skip
    return Cell(**(fields | changes))


def made_bundle(*drafters: str) -> Bundle:
    cells = tuple(made_cell(drafter) for drafter in ("none", *drafters))
    return Bundle(cells[0], cells)


def made_sample(doc_id: int = 0, **changes: Any) -> Sample:
    """A plausible sample: two verify passes where the baseline needed four."""
    sample = Sample(
        doc_id=doc_id,
        prompt_hash=f"{doc_id:016x}",
        prompt_tokens=20,
        tokens=[5, 6, 7, 2],
        text="an answer",
        finish="end",
        prefill_passes=1,
        verify_passes=2,
        commit_passes=0,
        rows=6,
        depths=[1, 1],
        prefill_s=0.25,
        draft_s=0.125,
        verify_s=0.5,
        host_s=0.125,
        baseline_passes=4,
        baseline_s=1.5,
        exact_match=True,
        empty=False,
        repetitive=False,
        scores={"exact_match": 1.0},
    )
    return replace(sample, **changes)


def made_manifest(cell: Cell, **changes: Any) -> Manifest:
    manifest = Manifest(
        schema=records.SCHEMA,
        cell_id=cell.id,
        cell=records.as_json(cell),
        settings={"metric": "exact_match", "tiny": True, "weights": "w1"},
        versions={},
        code="c1",
        hardware={},
        attempts=1,
        peak_memory_mib=1,
        started="2026-01-01T00:00:00+00:00",
        finished="2026-01-01T00:00:01+00:00",
    )
    return replace(manifest, **changes)


def finish(store: Store, cell: Cell, samples: list[Sample], **manifest: Any) -> None:
    steps = [Step(sample.doc_id, 0, 3, 1, 0.1, 0.2, 0.1) for sample in samples]
    store.finish(cell, made_manifest(cell, **manifest), samples, steps, "exact_match")


def finish_grid(store: Store, cells: list[Cell], **changed: list[Sample]) -> None:
    """Make every cell DONE with faultless samples; `changed` names a drafter's own ones."""
    for cell in cells:
        finish(store, cell, changed.get(cell.drafter, [made_sample(n) for n in range(cell.prompts)]))


def divergence(tie: bool) -> Divergence:
    return Divergence(block=1, step=2, position=3, token_gap=1e-7 if tie else 0.5, confidence_gap=0.0, tie=tie)
