"""How planning and status grow with the grid: `python -m slurm.scale [CELLS...]`, on made-up results, without a Slurm.

Half of the cells are done, some have failed or are begun, and all bundles are in one submission, half of it running.
"""

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from unittest import mock

from rich.console import Console

from slurm import ledger, queue, status
from slurm.cluster import Cluster
from slurm.submit import plan
from slurm.survey import survey
from suite import records
from suite.cells import Bundle, Cell
from suite.grid import Grid
from suite.machine import code_hash
from suite.records import Manifest, Sample
from suite.store import CONTENT, Store

SIZES = (1_000, 10_000, 100_000)
SITE = Cluster(name="scale")
LOOK_ALIKES = ["tiny-sdar-b16", "tiny-sdar-b8", "tiny-sdar-moe-b16", "tiny-llada", "tiny-dream", "tiny-fast-dllm-b16"]
T = TypeVar("T")


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(one(int(sys.argv[2])))
        return
    print(f"{'cells':>8} {'bundles':>8} {'plan s (CPU)':>15} {'status s (CPU)':>15} {'peak MiB':>9}")
    for size in map(int, sys.argv[1:] or SIZES):  # a process each, for the memory is the most it ever had
        command = [sys.executable, "-m", "slurm.scale", "--one", str(size)]
        print(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout, end="", flush=True)


def one(size: int) -> str:
    """A line of figures for a grid of about so many cells."""
    folder = Path(tempfile.mkdtemp(prefix="spotbench-scale-"))
    try:
        store = Store(folder)
        grid = grid_of(size)
        bundles = grid.bundles()
        answer = make(store, bundles)
        with (
            mock.patch.object(queue, "look", lambda names: queue.parse(answer)),
            mock.patch.object(queue, "longest_array", lambda: 1001),
        ):
            planned, plan_s = timed(lambda: plan(grid_of(size), store, SITE, retry=True))
            _, status_s = timed(lambda: show(grid_of(size), store))
        assert planned.chunks
    finally:
        shutil.rmtree(folder)
    cells = sum(len(bundle.cells) for bundle in bundles)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{cells:8} {len(bundles):8} {plan_s:>15} {status_s:>15} {peak:9.0f}"


def grid_of(size: int) -> Grid:
    """19 cells a bundle, 48 bundles a seed."""
    return Grid(
        name="scale",
        targets=LOOK_ALIKES,
        tasks=["tiny-gsm", "tiny-math", "tiny-code", "tiny-ifeval"],
        temperatures=[0.0, 1.0],
        seeds=list(range(max(1, round(size / 48 / 19)))),
        drafters=["left-to-right", "chain", "best-first", "oracle", "perfect", "random"],
        rows=[3, 9, 17],
        prompts=100,
        allow_code_execution=True,
    )


def show(grid: Grid, store: Store) -> None:
    """What `spotbench status` does, onto nothing."""
    bundles = grid.bundles()
    with open("/dev/null", "w") as nowhere:
        Console(file=nowhere, width=120).print(status.screen(bundles, survey(bundles, store), time.time()))


def make(store: Store, bundles: list[Bundle]) -> str:
    """Write the results; what squeue would answer."""
    half = len(bundles) // 2
    made: dict[str, bytes] = {}
    for n, bundle in enumerate(bundles):
        for cell in bundle.cells if n < half else ():
            made = made or written(store, cell)
            put(store.root / cell.id, made)
        if n >= half and n % 50 == 0:
            store.fail(bundle.cells[1], ValueError("made up"), "")
            (store.root / "partial" / f"{bundle.id}.{code_hash()}").mkdir(parents=True)
    for cell in {(b.baseline.target, b.baseline.task): b.baseline for b in reversed(bundles[:half])}.values():
        shutil.rmtree(store.root / cell.id)
        written(store, cell)
    arrays = [tuple(bundle.id for bundle in bundles[start : start + 1000]) for start in range(0, len(bundles), 1000)]
    submission = ledger.new(store.root, "scale", code_hash(), arrays)
    replace(submission, arrays=tuple(replace(array, job="1") for array in submission.arrays)).write()
    places = [(array.name, index) for array in submission.arrays for index in range(len(array.bundles))]
    live = places[half : half + half // 2]
    return "".join(f"{name}|{index}|1_{index}|RUNNING|node1|None\n" for name, index in live)


def written(store: Store, cell: Cell) -> dict[str, bytes]:
    """A cell with one sample, as a run writes it; its files."""
    sample = Sample(
        doc_id=0, prompt_hash="0" * 16, prompt_tokens=20, tokens=[5, 6, 7, 2], text="an answer", finish="end",
        prefill_passes=1, verify_passes=2, commit_passes=0, rows=6, depths=[1, 1], prefill_s=0.1, draft_s=0.1,
        verify_s=0.5, host_s=0.1, baseline_passes=4, baseline_s=1.0, exact_match=True, empty=False, repetitive=False,
        scores={"exact_match": 1.0},
    )  # fmt: skip
    manifest = Manifest(records.SCHEMA, cell.id, records.as_json(cell), {}, {}, "", {}, 1, 1, "", "")
    store.finish(cell, manifest, [sample], [], "exact_match")
    return {name: (store.root / cell.id / name).read_bytes() for name in (*CONTENT, "result.json")}


def put(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def timed(what: Callable[[], T]) -> tuple[T, str]:
    """Seconds on the clock, and of processor time, which other work on the machine does not add to."""
    clock, processor = time.perf_counter(), time.process_time()
    done = what()
    return done, f"{time.perf_counter() - clock:.2f} ({time.process_time() - processor:.2f})"


if __name__ == "__main__":
    main()
