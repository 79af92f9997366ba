"""Weights & Biases: the curve of a training, and finished cells."""

import json
import math
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import wandb
from matplotlib.figure import Figure

from reports import track
from suite import grid, tracking
from suite.tracking import curve
from tests.suite.tiny_grid import contents, finish_grid, grid_text, spotbench, store_of


def inspect(folder: Path) -> list[dict[str, object]]:
    """What the offline run holds, as wandb's own reader tells it."""
    (run,) = (folder / "wandb").glob("offline-run-*")
    tool = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(run)]
    told = subprocess.run(tool, capture_output=True, text=True, check=True, timeout=120).stdout
    return [json.loads(line) for line in told.splitlines()]


def test_an_offline_run_holds_the_curve_and_the_recipe_and_nothing_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    warned: list[str] = []
    with curve("spot tiny", {"rate": 0.125, "seed": 7}, tmp_path, warned.append) as note:
        note({"step": 250, "loss": 1.5, "accuracy": 0.25})
        note({"step": 500, "loss": 0.75, "accuracy": 0.5})
    assert warned == []
    told = json.dumps(inspect(tmp_path))
    for held in ("0.125", "accuracy", "0.75", "spot tiny"):
        assert held in told
    (run,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    for private in (os.getcwd(), str(tmp_path), sys.executable):
        assert private.encode() not in run.read_bytes()
    assert f'"{socket.gethostname()}"' not in told


def test_a_tracker_that_fails_is_told_once_and_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: object) -> None:
        raise RuntimeError("no network\nat all")

    monkeypatch.setattr(wandb, "init", broken)
    warned: list[str] = []
    with curve("spot tiny", {}, tmp_path, warned.append) as note:
        note({"step": 1, "loss": 1.0})
        note({"step": 2, "loss": 1.0})
    assert warned == ["not tracked in Weights & Biases from here on: no network"]


def test_an_error_inside_is_not_swallowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    with pytest.raises(KeyboardInterrupt), curve("spot tiny", {}, tmp_path, print) as note:
        note({"step": 1, "loss": 1.0})
        raise KeyboardInterrupt


def one(name: str = "cell", stamp: str = "s1", **changes: Any) -> tracking.Mirrored:
    made = tracking.Mirrored(
        key=f"a machine {name}",
        stamp=stamp,
        name=name,
        group="smoke",
        job_type="cell",
        tags=["tiny look-alike", "x" * 70],
        config={"rows": 9},
        summary={"passes": 3.5, "speedup": math.nan},
        history=[{"accepted": 0.75}, {"accepted": 0.25}],
    )
    return replace(made, **changes)


def test_a_mirrored_cell_is_a_run_and_holds_nothing_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    picture = tmp_path / "figure.png"
    Figure(figsize=(0.2, 0.2)).savefig(picture)
    warned: list[str] = []
    assert tracking.mirror([one(pictures={"figure": picture})], tmp_path, warned.append) == 1
    assert warned == []
    told = json.dumps(inspect(tmp_path))
    for held in ("smoke", "tiny look-alike", "accepted", "3.5", one().id):
        assert held in told
    (run,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    for private in (os.getcwd(), str(tmp_path), sys.executable, str(Path.home())):
        assert private.encode() not in run.read_bytes()
    assert f'"{socket.gethostname()}"' not in told


def test_what_is_mirrored_is_left_alone_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    both = [one("a"), one("b")]
    assert [tracking.mirror(both, tmp_path, print) for _ in range(2)] == [2, 0]
    assert tracking.mirror([*both, one("c")], tmp_path, print) == 1
    assert tracking.mirror([one("a", "s2"), one("b")], tmp_path, print) == 1
    assert one("a", "s2").id == one("a").id != one("b").id


def test_a_run_that_was_cut_short_is_logged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setattr(tracking, "_log", lambda *_: (_ for _ in ()).throw(RuntimeError("no network\nat all")))
    warned: list[str] = []
    assert tracking.mirror([one("a"), one("b")], tmp_path, warned.append) == 0
    assert warned == ["a: not tracked in Weights & Biases: no network"]
    monkeypatch.undo()
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert tracking.mirror([one("a"), one("b")], tmp_path, print) == 2


def test_a_grid_is_tracked_cell_by_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    file = tmp_path / "tiny.toml"
    file.write_text(grid_text())
    store = store_of(tmp_path / "results")
    cells = grid.read(str(file)).cells()
    finish_grid(store, cells[:2])
    before = contents(store.root)
    made = {run.name: run for run in track.runs("tiny", store, cells)}
    assert list(made) == [cell.id for cell in cells[:2]]
    chain = made[cells[1].id]
    assert (chain.group, chain.job_type, chain.config["drafter"]) == ("tiny", "cell", "chain")
    assert (chain.summary["passes"], chain.summary["pass_reduction"]) == (2.0, pytest.approx(2.0))
    assert chain.history == [{"accepted": 1.0, "accepted_given_one_fewer": 1.0}]
    ran = spotbench("track", file, "--results", tmp_path / "results")
    assert (ran.code, ran.out.startswith("2 new runs")) == (0, True)
    assert spotbench("track", file, "--results", tmp_path / "results").out.startswith("0 new runs")
    after = contents(store.root)
    assert {name: after[name] for name in before} == before
