"""`spotbench submit` and `spotbench status` as a user meets them, on commands that only pretend to be Slurm."""

import os
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from slurm import cluster, ledger
from suite import cli, grid
from suite.machine import code_hash
from suite.store import Store
from tests.slurm import fakes
from tests.slurm.fakes import FakeSlurm
from tests.suite.tiny_grid import finish_grid, grid_text, spotbench

SITE = """
name = "site"
partition = "gpu"
account = "me"
qos = "long"
constraint = "a100"
gres = "disk:10"
gpus = 1
cpus = 4
memory_gb = 1.5
time = "1-02:03:04"
signal_s = 77
throttle = 5
container = "apptainer exec image.sif"
srun = ["--cpu-bind=none"]
node_cache = "/tmp/$USER"
setup = ["module load cuda"]

[targets.tiny-sdar-b8]
gpus = 2

[report]
partition = "cpu"
constraint = ""
time = "0:10:00"
"""
GOLDEN = """#!/bin/bash

# Parameters
#SBATCH --account=me
#SBATCH --array=0-2%3
#SBATCH --constraint=a100
#SBATCH --cpus-per-task=4
#SBATCH --error=LOGS/%A_%a_0_log.err
#SBATCH --gpus-per-node=1
#SBATCH --gres=disk:10
#SBATCH --job-name=tiny.ID.0
#SBATCH --mem=1536M
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --open-mode=append
#SBATCH --output=LOGS/%A_%a_0_log.out
#SBATCH --partition=gpu
#SBATCH --qos=long
#SBATCH --requeue
#SBATCH --signal=USR2@77
#SBATCH --time=1564

# setup
module load cuda
export TMPDIR="/tmp/$USER" XDG_CACHE_HOME="/tmp/$USER/cache"
mkdir -p "$TMPDIR"
export PYTHONPATH=CODE${PYTHONPATH:+:$PYTHONPATH} PYTHONSAFEPATH=1
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output LOGS/%A_%a_%t_log.out --error LOGS/%A_%a_%t_log.err --cpus-per-task=4 --cpu-bind=none \
sh -c 'trap "" USR2 TERM; exec "$@"' sh apptainer exec image.sif python3 -u -m submitit.core._submit LOGS
"""


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide enough for names not to fold, whatever terminal the tests run in."""
    monkeypatch.setattr(cli.show, "width", 120)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    return fakes.install(tmp_path / "bin", longest=3)


@pytest.fixture
def sweep(tmp_path: Path) -> tuple[Path, Path, Store]:
    """A grid of five bundles, a cluster file, and where the results go."""
    (tmp_path / "grid.toml").write_text(grid_text(seeds="[0, 1, 2, 3, 4]"))
    (tmp_path / "site.toml").write_text(SITE)
    return Path("grid.toml"), Path("site.toml"), Store(tmp_path / "results" / "site" / "tiny")


Sweep = tuple[Path, Path, Store]


def as_queued(submission: ledger.Submission, state: str) -> list[str]:
    return [
        f"{array.name}|{index}|{array.job}_{index}|{state}|n1|None"
        for array in submission.arrays
        for index in range(len(array.bundles))
    ]


def test_the_batch_file(fake: FakeSlurm, sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    file, site, store = sweep
    monkeypatch.setenv("SLURM_JOB_ID", "7")  # submitted from inside a job
    monkeypatch.setenv("SLURM_CONF", "/somewhere")
    ran = spotbench("submit", file, "--cluster", site)
    assert ran.code == 0, ran.err
    (submission,) = ledger.submissions(store.root)
    first, second, report = fake.scripts()
    hidden = {str(submission.logs): "LOGS", str(submission.code_folder): "CODE", submission.id: "ID"}
    for text, name in hidden.items():
        first = first.replace(text, name)
    assert first == GOLDEN
    assert "--array=0-1%2" in second
    for line in ("--dependency=afterany:1:2", "--partition=cpu", "--time=10", "--cpus-per-task=4"):
        assert f"#SBATCH {line}" in report
    assert not re.search("--(constraint|gpus|gres|array)", report)
    assert set((fake.folder / "leaked").read_text().split()) == {"SLURM_CONF"}
    assert (submission.code_folder / "slurm" / "worker.py").exists()
    assert [array.job for array in submission.arrays] == ["1", "2"]


def test_what_would_be_submitted_is_shown_and_nothing_done(fake: FakeSlurm, sweep: Sweep) -> None:
    file, site, store = sweep
    out = spotbench("submit", file, "--cluster", site, "--dry-run").out
    assert out.splitlines()[1].split() == ["tiny-sdar-b16", "15", "5", "2", "1", "1-02:03:04", "130.3", "h", "0.1", "h"]
    assert "15 cells: 15 missing" in out
    assert not fake.scripts()
    assert not store.root.exists()


def test_a_second_call_submits_nothing_and_a_lost_job_is_submitted_again(fake: FakeSlurm, sweep: Sweep) -> None:
    file, site, store = sweep
    spotbench("submit", file, "--cluster", site)
    (submission,) = ledger.submissions(store.root)
    fake.queue(*as_queued(submission, "PENDING"))
    assert "15 pending\nnothing to submit" in spotbench("submit", file, "--cluster", site).out
    fake.queue(*as_queued(submission, "PENDING")[1:], as_queued(submission, "NODE_FAIL")[0])
    again = spotbench("submit", file, "--cluster", site)
    assert "12 pending, 3 lost" in again.out
    assert [len(array.bundles) for array in ledger.submissions(store.root)[-1].arrays] == [1]


def test_a_submitter_that_died_before_it_wrote_down_the_job_is_no_loss(fake: FakeSlurm, sweep: Sweep) -> None:
    file, site, store = sweep
    spotbench("submit", file, "--cluster", site)
    (submission,) = ledger.submissions(store.root)
    fake.queue(*as_queued(submission, "RUNNING"))
    unknown = [ledger.Array(array.name, array.bundles) for array in submission.arrays]
    ledger.Submission(store.root, submission.id, submission.code, tuple(unknown)).write()
    assert "15 running\nnothing to submit" in spotbench("submit", file, "--cluster", site).out


def test_where_slurm_refuses_the_rest_stays_missing(fake: FakeSlurm, sweep: Sweep) -> None:
    file, site, _ = sweep
    fake.set("full")
    ran = spotbench("submit", file, "--cluster", site)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "Slurm refused: sbatch: error: QOSMaxSubmitJobPerUserLimit" in ran.err
    fake.set("full", False)
    assert "15 cells: 15 missing" in spotbench("submit", file, "--cluster", site).out


def test_a_queue_that_does_not_answer_is_unknown_never_lost(fake: FakeSlurm, sweep: Sweep) -> None:
    file, site, _ = sweep
    spotbench("submit", file, "--cluster", site)
    fake.set("down")
    out = spotbench("status", file).out
    assert "unknown: squeue: slurm_load_jobs error: down" in out
    assert dict(zip(out.splitlines()[0].split(), out.splitlines()[1].split(), strict=True))["unknown"] == "15"
    assert "lost tiny" not in out
    ran = spotbench("submit", file, "--cluster", site)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert len(fake.scripts()) == 3, "two arrays and the report, and none more"


def test_two_do_not_submit_at_once(fake: FakeSlurm, sweep: Sweep) -> None:
    file, site, store = sweep
    with ledger.alone(store.root):
        ran = spotbench("submit", file, "--cluster", site)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert f"remove the folder {store.root / 'submissions' / 'lock'}" in ran.err
    assert not fake.scripts()
    assert spotbench("submit", file, "--cluster", site).code == 0


def test_status_tells_each_state_and_each_failure(fake: FakeSlurm, sweep: Sweep) -> None:
    file, site, store = sweep
    spotbench("submit", file, "--cluster", site)
    (submission,) = ledger.submissions(store.root)
    bundles = grid.read(str(file)).bundles()
    finish_grid(store, list(bundles[0].cells))
    store.fail(bundles[1].cells[1], ValueError("no idea"), "Traceback")
    lines = as_queued(submission, "RUNNING")
    fake.queue(lines[0], *as_queued(submission, "OUT_OF_MEMORY")[1:3], lines[3], as_queued(submission, "PENDING")[4])
    partial = store.root / "partial" / f"{bundles[2].id}.{code_hash()}"
    partial.mkdir(parents=True)
    (partial / "p.at").write_text(bundles[2].cells[1].id)
    log = submission.log(submission.arrays[0], 1)
    log.write_text("much\nsrun: error: n1: task 0: Exited with exit code 9\n\n")
    out = spotbench("status", file).out
    assert [line.split() for line in out.splitlines()[:2]] == [
        ["target", "task", "cells", "done", "running", "pending", "failed", "lost", "missing", "begun"],
        ["tiny-sdar-b16", "tiny-gsm", "15", "3", "3", "3", "1", "5", "-", "-"],
    ]
    said = " ".join(out.split())
    assert "failed tiny-sdar-b16 tiny-gsm T=1 exact seed 1: chain r3 ValueError: no idea; exit code 9" in said
    assert "> much" in said
    assert (
        "seed 2: none r1, chain r3, oracle r3 its job ended as OUT_OF_MEMORY on n1; killed at chain r3 (time 1)" in said
    )
    assert str(log.relative_to(store.root.parents[2])) in out, "in one piece, to be copied"
    assert "3 of 15 cells are done" in said
    assert (fake.folder / "asked").read_text().count("\n") == 1, "one call for all"


def test_watching_ends_when_nothing_is_at_work(fake: FakeSlurm, sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    file, site, store = sweep
    spotbench("submit", file, "--cluster", site)
    fake.queue(*as_queued(ledger.submissions(store.root)[0], "RUNNING"))
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            finish_grid(store, grid.read(str(file)).cells())

    monkeypatch.setattr("slurm.status.time", SimpleNamespace(time=time.time, sleep=wait))
    out = spotbench("status", file, "--watch").out
    assert [line.split()[0] for line in out.splitlines() if "cells are done" in line] == ["0", "0", "0", "15"]
    assert waits == sorted(set(waits)), "less and less often"


def test_status_needs_no_slurm_where_nothing_was_submitted(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    file, _, store = sweep
    monkeypatch.chdir(store.root.parents[2])
    monkeypatch.setenv("PATH", "")
    finish_grid(store, list(grid.read(str(file)).bundles()[0].cells))
    assert "3 of 15 cells are done" in spotbench("status", file).out


def test_whose_results_are_read(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    file, _, store = sweep
    monkeypatch.chdir(store.root.parents[2])
    bundles = grid.read(str(file)).bundles()
    finish_grid(store, list(bundles[0].cells))
    assert "3 of 15 cells are done" in spotbench("status", file).out, "the only ones there are"
    finish_grid(Store(store.root.parents[1] / "other" / "tiny"), [bundles[0].cells[0]])
    ran = spotbench("status", file)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "results of tiny from other, site; say --on" in ran.err
    assert "1 of 15 cells are done" in spotbench("status", file, "--on", "other").out


def test_code_edited_after_submission_is_shown(fake: FakeSlurm, sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    file, site, _ = sweep
    spotbench("submit", file, "--cluster", site)
    assert "as it was submitted" not in spotbench("status", file).out
    monkeypatch.setattr("slurm.status.code_hash", lambda: "0123")
    assert "the code here is 0123; the jobs of" in spotbench("status", file).out


def test_replayed_cells_are_submitted_as_such(fake: FakeSlurm, sweep: Sweep) -> None:
    file, site, store = sweep
    assert spotbench("submit", file, "--cluster", site, "--replayed").code == 0
    (submission,) = ledger.submissions(store.root)
    replayed = grid.read(str(file)).model_copy(update={"device": "replay"}).bundles()
    assert {name for array in submission.arrays for name in array.bundles} == {bundle.id for bundle in replayed}


def test_only_a_cell_that_was_given_up_gets_another_chance(fake: FakeSlurm, sweep: Sweep) -> None:
    """One that has killed a process or two stays under suspicion, or it would take its neighbours along again."""
    file, site, store = sweep
    first, second, *_ = grid.read(str(file)).bundles()
    for bundle, times in ((first, 3), (second, 2)):
        folder = store.root / "partial" / f"{bundle.id}.{code_hash()}"
        folder.mkdir(parents=True)
        for n in range(times):
            (folder / f"{n}.at").write_text(bundle.cells[1].id)
    assert "14 missing" in spotbench("submit", file, "--cluster", site, "--dry-run").out
    assert spotbench("submit", file, "--cluster", site, "--retry").code == 0
    assert [store.deaths(bundle)[bundle.cells[1].id] for bundle in (first, second)] == [0, 2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name = "x"\npartitoin = "gpu"', "unknown key 'partitoin'; valid keys: partition, account, qos"),
        ('partition = "gpu"', "key 'name' is missing"),
        ('name = "x"\ntime = "90"', "time: '90' is no time limit; write HH:MM:SS or D-HH:MM:SS"),
        ('name = "x"\ngpus = -1', "gpus: Input should be greater than or equal to 0 (got -1)"),
        ('name = "x"\n[targets.a]\nsetup = []', "unknown key 'targets.a.setup'; valid keys: partition, account"),
        ("name = ", "not TOML"),
    ],
)
def test_a_mistake_in_a_cluster_file_is_one_line(text: str, said: str, tmp_path: Path, sweep: Sweep) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    ran = spotbench("submit", tmp_path / sweep[0], "--cluster", path)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert f"{path}: {said}" in ran.err


def test_an_unknown_cluster_names_the_shipped_ones(tmp_path: Path, sweep: Sweep) -> None:
    ran = spotbench("submit", tmp_path / sweep[0], "--cluster", "nowhere")
    assert "no cluster 'nowhere'; shipped: cpu, gpu, lab" in ran.err


def test_shipped_clusters_can_be_read() -> None:
    assert [cluster.read(name).name for name in cluster.shipped()] == ["cpu", "gpu", "lab"]
    assert cluster.read("gpu").of_target("SDAR-30B-A3B-Chat-b32").gpus == 2
    assert cluster.read("gpu").of_report().gpus == 0
