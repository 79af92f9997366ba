"""The curve of a training in Weights & Biases."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import wandb

from suite.tracking import curve


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
