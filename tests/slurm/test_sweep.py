"""A sweep of sixty bundles on a real Slurm, through all that a cluster does to it at once."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from slurm import ledger
from slurm.survey import State, survey
from suite import grid, runner
from suite.machine import code_hash
from suite.store import Store
from tests.slurm import toys
from tests.slurm.conftest import ROOT, Lab
from tests.suite.tiny_grid import grid_text, outcomes, spotbench, store_of

BUNDLES = 60
RAISES, EXITS, MEMORY, CANCELLED, TOLD, UNTOLD, NODE, LATE, FULL, TORN = range(1, 11)
"""Seeds of the bundles that get into trouble."""
WAITING = (CANCELLED, TOLD, UNTOLD, NODE, LATE)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Toys in this process too."""
    monkeypatch.setattr(runner.load, "load", toys.load)
    monkeypatch.setattr("tasks.harness.load", lambda name: toys.ToyTask())


def cluster_file(folder: Path, **changes: str) -> Path:
    """The lab's, whose jobs get the toys."""
    (folder / "boot").mkdir()
    (folder / "boot" / "sitecustomize.py").write_text("from tests.slurm import toys\n\ntoys.install()\n")
    (folder / "faults").mkdir()
    keys = {
        "name": '"lab"', "partition": '"scavenge"', "memory_gb": "1.0", "time": '"0:20:00"', "signal_s": "30",
        "throttle": "7",
        "setup": f'["export PYTHONPATH={folder / "boot"}:{ROOT} {toys.FOLDER}={folder / "faults"}"]',
    } | changes  # fmt: skip
    file = folder / "lab.toml"
    file.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()) + '[report]\npartition = "batch"\n')
    return file


def grid_file(folder: Path, seeds: Sequence[int]) -> Path:
    (folder / "faulty.py").write_text(toys.DRAFTER)
    file = folder / "sweep.toml"
    file.write_text(
        'name = "sweep"\ntargets = ["tiny-sdar-b16"]\ntasks = ["tiny-gsm"]\ntemperatures = [1.0]\nrows = [3]\n'
        f'prompts = 3\nseeds = {list(seeds)}\ndrafters = ["chain", "{folder / "faulty.py"}:Faulty"]\n'
    )
    return file


def until(what: Callable[[], object], seconds: float = 1200) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.5)


def at(folder: Path, seed: int) -> tuple[str, int, str]:
    """The job, the pid and the node of a bundle that waits."""
    job, pid, node = (folder / "faults" / "at" / str(seed)).read_text().split()
    return job, int(pid), node


def idle(lab: Lab) -> bool:
    return not lab.ask("squeue", "--noheader", "-o", "%i")


def submitted(out: str) -> int:
    """Cells in the table that submit shows first."""
    return sum(int(line.split()[1]) for line in out.splitlines() if line.startswith("tiny-sdar-b16"))


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Callable[[Path], None]]:
    mounted: list[Path] = []

    def mount(folder: Path) -> None:
        folder.mkdir(parents=True)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", folder], check=False)
        if done.returncode:
            pytest.skip("a full disk needs the right to mount one")
        mounted.append(folder)

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", folder], check=False)


def test_every_cell_is_done_or_failed_for_a_reason(
    tmp_path: Path, lab: Lab, toy: None, full_disk: Callable[[Path], None]
) -> None:
    site, file, results = cluster_file(tmp_path), grid_file(tmp_path, range(BUNDLES)), tmp_path / "results"
    sweep = grid.read(str(file))
    bundles, cells = sweep.bundles(), sweep.cells()
    store = Store(results / "lab" / "sweep")
    partial = {bundle.baseline.seed: store.root / "partial" / f"{bundle.id}.{code_hash()}" for bundle in bundles}
    full_disk(partial[FULL])
    partial[TORN].mkdir(parents=True)
    (partial[TORN] / "torn.jsonl").write_text('{"doc_id": 0, "samples": {"' + cells[0].id)
    for seed in WAITING:
        (tmp_path / "faults" / str(seed)).write_text("wait")
    (tmp_path / "faults" / str(MEMORY)).write_text("memory")

    def submit(*more: str) -> str:
        ran = spotbench("submit", file, "--cluster", site, "--results", results, *more)
        assert ran.code == 0, ran.err
        return ran.out

    def states() -> dict[int, set[State]]:
        found = survey(bundles, store)
        return {bundle.baseline.seed: {found.states[cell.id] for cell in bundle.cells} for bundle in bundles}

    said = submit()
    assert submitted(said) == len(cells)
    (first,) = ledger.submissions(store.root)
    assert [len(array.bundles) for array in first.arrays] == [25, 25, 10], "MaxArraySize is 25"
    assert submitted(submit()) == 0, "at work already"

    until(lambda: all((tmp_path / "faults" / "at" / str(seed)).exists() for seed in WAITING))
    lab.ask("scancel", at(tmp_path, CANCELLED)[0])
    late = at(tmp_path, LATE)[0]
    lab.ask("scontrol", "update", f"jobid={late}", "timelimit=1")
    until(lambda: lab.state(late) != "RUNNING")
    lab.ask("scontrol", "update", f"jobid={late}", "timelimit=20")
    stray = at(tmp_path, NODE)[1]
    os.kill(lab.pid_of_slurmd(at(tmp_path, NODE)[2]), signal.SIGKILL)
    preempt(lab, at(tmp_path, TOLD))
    lab.tell_of_preemption(False)
    preempt(lab, at(tmp_path, UNTOLD))
    until(lambda: idle(lab))

    assert (store.root / "report.md").exists(), "failures hold no report back"
    after = states()
    unfinished = {seed for seed, found in after.items() if found != {State.DONE}}
    assert unfinished == {RAISES, EXITS, MEMORY, CANCELLED, FULL}, (
        "what Slurm took back into the queue went on by itself"
    )
    assert [after[seed] - {State.DONE} for seed in (RAISES, EXITS, MEMORY, CANCELLED, FULL)] == [
        {State.FAILED}, {State.LOST}, {State.LOST}, {State.LOST}, {State.FAILED},
    ]  # fmt: skip
    told = " ".join(spotbench("status", file, "--results", results).out.split())
    for reason in ("DraftError: drafter Faulty", "exit code 9", "ended as CANCELLED", "the disk is full"):
        assert reason in told

    assert submitted(submit("--dry-run")) == sum(
        len(bundle.cells) for bundle in bundles if bundle.baseline.seed in (EXITS, MEMORY, CANCELLED)
    )
    subprocess.run(["umount", "-l", partial[FULL]], check=True)
    for _ in range(2):
        submit("--retry")
        until(lambda: idle(lab))
    failed = {cell.id for bundle in bundles for cell in bundle.cells if not store.done(cell)}
    assert failed == {
        cell.id for cell in cells if cell.seed in (RAISES, EXITS) and cell.drafter.startswith("Faulty")
    }, "the faulty ones alone, and not their neighbours"
    assert states()[EXITS] == {State.DONE, State.FAILED}
    assert "killed 3 processes" in spotbench("status", file, "--results", results).out
    assert submitted(submit()) == 0

    assert no_cell_ran_after_it_was_done(tmp_path, store)
    os.kill(stray, signal.SIGKILL)
    undisturbed = tmp_path / "undisturbed"
    spotbench("run", file, "--results", undisturbed)
    (calm,) = [Store(path) for path in undisturbed.glob("*/sweep")]
    for cell in cells:
        if cell.id not in failed:
            assert contents(store, cell.id) == contents(calm, cell.id)


def test_accounts_or_none_the_same_is_seen(tmp_path: Path, lab_with_accounts: Lab) -> None:
    """All else here is done without slurmdbd."""
    site, file, results = cluster_file(tmp_path), grid_file(tmp_path, [RAISES, EXITS, CANCELLED]), tmp_path / "results"
    (tmp_path / "faults" / str(CANCELLED)).write_text("wait")

    def submit(*more: str) -> int:
        ran = spotbench("submit", file, "--cluster", site, "--results", results, *more)
        assert ran.code == 0, ran.err
        return submitted(ran.out)

    assert submit() == 3 * 3
    until(lambda: (tmp_path / "faults" / "at" / str(CANCELLED)).exists())
    lab_with_accounts.ask("scancel", at(tmp_path, CANCELLED)[0])
    until(lambda: idle(lab_with_accounts))
    assert "CANCELLED" in lab_with_accounts.ask("sacct", "--noheader", "--allocations", "--format=state%20")
    told = " ".join(spotbench("status", file, "--results", results).out.split())
    for reason in ("DraftError: drafter Faulty", "exit code 9", "ended as CANCELLED"):
        assert reason in told
    assert submit("--dry-run") == 2 * 3, "what exited and what was cancelled"


def preempt(lab: Lab, waiting: tuple[str, int, str]) -> None:
    """Take the node of a job for one of a higher partition."""
    job, _, node = waiting
    lab.ask("sbatch", "--partition=batch", f"--nodelist={node}", "--exclusive", "--output=/dev/null", "--wrap=sleep 1")
    until(lambda: lab.state(job) != "RUNNING")


def no_cell_ran_after_it_was_done(folder: Path, store: Store) -> bool:
    for line in (folder / "faults" / "visits").read_text().splitlines():
        cell_id, when, *_ = line.split()
        result = store.root / cell_id / "result.json"
        if result.exists() and float(when) > result.stat().st_mtime:
            return False
    return True


def contents(store: Store, cell_id: str) -> list[str]:
    """All that a cell holds, without times and attempts."""
    folder = store.root / cell_id
    lines = [line for name in ("samples.jsonl", "steps.jsonl") for line in (folder / name).read_text().splitlines()]
    manifest, result = (json.loads((folder / name).read_text()) for name in ("manifest.json", "result.json"))
    rest = {key: manifest[key] for key in ("cell", "settings", "versions", "code", "hardware")}
    return [json.dumps(_timeless(value)) for value in [*map(json.loads, lines), rest, result["summary"]]]


def _timeless(values: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in values.items() if not key.endswith("_s")}


def test_two_bundles_on_a_node_have_a_gpu_each(tmp_path: Path, lab: Lab) -> None:
    """A job of two fake GPUs' node sees one; each waits for the other, so that they are there together."""
    site = cluster_file(tmp_path, gpus="1")
    file, results = grid_file(tmp_path, range(20, 22)), tmp_path / "results"
    for seed in (20, 21):
        (tmp_path / "faults" / str(seed)).write_text("wait")
    lab.ask("scontrol", "update", "nodename=n[2-4]", "state=drain", "reason=test")
    try:
        ran = spotbench("submit", file, "--cluster", site, "--results", results)
        assert ran.code == 0, ran.err
        until(lambda: all((tmp_path / "faults" / "at" / str(seed)).exists() for seed in (20, 21)))
    finally:
        lab.ask("scontrol", "update", "nodename=n[2-4]", "state=resume")
    for seed in (20, 21):
        (tmp_path / "faults" / str(seed)).unlink()
    until(lambda: idle(lab))
    seen = {tuple(line.split()[2:4]) for line in (tmp_path / "faults" / "visits").read_text().splitlines()}
    assert seen == {("n1", "0"), ("n1", "1")}
    assert len(Store(results / "lab" / "sweep").finished()) == 6


def test_a_job_finds_what_a_local_run_does(tmp_path: Path, lab: Lab) -> None:
    """With a real target, and the cluster file that ships."""
    file, results = tmp_path / "tiny.toml", tmp_path / "results"
    file.write_text(grid_text(drafters='["chain"]'))
    assert spotbench("submit", file, "--cluster", "lab", "--results", results).code == 0
    until(lambda: idle(lab))
    assert spotbench("run", file, "--results", tmp_path / "local").code == 0
    cells = grid.read(str(file)).cells()
    assert outcomes(Store(results / "lab" / "tiny"), cells) == outcomes(store_of(tmp_path / "local"), cells)
    assert (results / "lab" / "tiny" / "report.md").exists()
