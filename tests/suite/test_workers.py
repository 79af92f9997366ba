"""Bundles shared by several processes."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from suite import grid, machine, workers
from suite.cells import Bundle
from suite.errors import UserError
from suite.workers import Tell
from tests.suite.tiny_grid import made_bundle, outcomes, spotbench, store_of


def test_two_workers_find_what_one_does(tmp_path: Path, write_grid: Callable[..., Path]) -> None:
    file = write_grid(temperatures="[0.0, 1.0]")
    for count in ("1", "2"):
        ran = spotbench("run", file, "--results", tmp_path / count, "--workers", count)
        assert ran.code == 0, ran.err
    cells = grid.read(str(file)).cells()
    assert outcomes(store_of(tmp_path / "2"), cells) == outcomes(store_of(tmp_path / "1"), cells)
    assert "bundle 2 of 2" in ran.err


def test_more_workers_than_cores_are_refused(write_grid: Callable[..., Path], in_folder: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    ran = spotbench("run", write_grid(), "--workers", str(cores + 1))
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert f"this machine has {cores} cores" in ran.err


def test_each_worker_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert machine.worker_gpus(2, "cuda") == ("3", "5")
    with pytest.raises(UserError, match="this machine has 2 GPUs"):
        machine.worker_gpus(3, "cuda")


NAMES = ["first", "second", "third", "fourth"]


def bundles() -> list[Bundle]:
    return [made_bundle(name) for name in NAMES]


def name_of(bundle: Bundle) -> str:
    return bundle.cells[1].drafter


def shared(work: Callable[..., object], gpus: tuple[str, ...] = ()) -> tuple[dict[str, list[str]], dict[str, str]]:
    """What was told of each bundle, and how those ended that died."""
    told: dict[str, list[str]] = {}
    deaths: dict[str, str] = {}
    made = bundles()

    def begin(n: int, worker: int) -> Tell:
        told[name_of(made[n])] = []
        return lambda what, done, total: told[name_of(made[n])].append(what)

    def died(bundle: Bundle, how: str) -> bool:
        deaths[name_of(bundle)] = how
        return False

    workers.run(made, work, 2, begin, died, gpus)
    return told, deaths


def leaves(bundle: Bundle, progress: Tell) -> None:
    progress("begun", 0, 1)
    if name_of(bundle) == "second":
        os._exit(3)
    if name_of(bundle) == "third":
        os.abort()
    progress("done", 1, 1)


def test_a_process_that_dies_takes_its_own_bundle_alone() -> None:
    told, deaths = shared(leaves)
    assert deaths == {
        "second": "its process ended with exit code 3",
        "third": "its process was killed by SIGABRT",
    }
    assert {name: said[-1] for name, said in told.items()} == {
        "first": "done", "second": "begun", "third": "begun", "fourth": "done",
    }  # fmt: skip


def refuses(bundle: Bundle, progress: Tell) -> None:
    if name_of(bundle) == "first":
        raise UserError("no such thing")
    time.sleep(600)


def test_a_users_mistake_stops_all() -> None:
    with pytest.raises(UserError, match="no such thing"):
        shared(refuses)


def tells_gpu(bundle: Bundle, progress: Tell) -> None:
    progress(os.environ["CUDA_VISIBLE_DEVICES"], 0, 1)
    time.sleep(0.5)


def test_workers_see_one_gpu_each() -> None:
    told, _ = shared(tells_gpu, ("3", "5"))
    assert {gpu for said in told.values() for gpu in said} == {"3", "5"}


def test_a_cell_that_kills_its_process_is_given_up_and_the_others_are_done(
    tmp_path: Path, write_grid: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deadly.py").write_text(
        "import os\nfrom drafters import Drafter\n\n\nclass Deadly(Drafter):\n"
        "    def propose(self, view, rows):\n        os._exit(9)\n"
    )
    monkeypatch.chdir(tmp_path)
    file = write_grid(drafters='["chain"]')
    ran = spotbench("run", file, "--results", tmp_path / "results", "--workers", "2", "--drafter", "deadly.py:Deadly")
    assert ran.code == 1
    (failed,) = [line for line in ran.out.splitlines() if line.startswith("failed")]
    assert "GivenUpError: it killed 3 processes" in failed
    store = store_of(tmp_path / "results")
    *others, deadly = grid.read(str(file), ["deadly.py:Deadly"]).cells()
    assert all(map(store.done, others))
    assert [failure.message for failure in store.failed(deadly)[:-1]] == ["its process ended with exit code 9"] * 3
