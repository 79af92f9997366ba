"""What `spotbench plan` tells: counts, an estimate that behaves like one, and what is missing."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from suite import estimate, grid
from tests.suite.tiny_grid import finish_grid, spotbench, store_of
from tests.tasks.made_up import fill

REAL = grid.read("real-tasks")


def test_the_grid_of_real_tasks_is_counted_and_estimated(in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(in_folder))
    monkeypatch.setenv("SPOTBENCH_DATA", str(in_folder / "data"))
    told = json.loads(spotbench("plan", "real-tasks", "--json").out)
    assert (len(told["bundles"]), sum(one["methods"] for one in told["bundles"])) == (60, 780)
    assert {one["prompts"] for one in told["bundles"]} == {1319, 500, 164, 541}
    assert all(one["decodes"] == one["prompts"] * one["methods"] and one["hours"] > 0 for one in told["bundles"])
    assert told["estimate_on"] == "H100"
    shown = spotbench("plan", "real-tasks").out
    assert "real-tasks: 780 cells in 60 bundles, 0 done" in shown
    assert "hours on one H100: an estimate from sizes" in shown
    for dataset in ("gsm8k", "math500", "mbpp", "ifeval"):
        assert f"missing data of {dataset}: no test of {dataset} in" in shown
    assert "humaneval:" not in shown, "it comes with the installation"
    assert "missing weights of LLaDA-8B-Instruct: hf download GSAI-ML/LLaDA-8B-Instruct" in shown


def test_what_is_done_takes_no_time_and_data_that_is_here_is_not_missing(
    in_folder: Path, write_grid: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPOTBENCH_DATA", str(tmp_path / "data"))
    file = write_grid(tasks='["tiny-gsm", "gsm8k-5shot"]')
    before = spotbench("plan", file).out
    assert "missing data of gsm8k-5shot: no test and train of gsm8k in" in before
    fill(tmp_path)
    half = [cell for cell in grid.read(str(file)).cells() if cell.task == "tiny-gsm"]
    finish_grid(store_of(in_folder / "results"), half)
    after = spotbench("plan", file).out
    assert "missing" not in after
    assert [line.split()[-1] for line in after.splitlines() if "tiny-gsm" in line] == ["-"]
    assert [line.split()[-1][0] for line in after.splitlines() if "gsm8k" in line] == ["~"]


def test_an_estimate_grows_with_what_costs_time() -> None:
    bundles = {(one.baseline.target, one.baseline.task): one for one in REAL.bundles()}
    small, big = (bundles[f"SDAR-{size}-Chat-b32", "gsm8k"] for size in ("1.7B", "8B"))
    full = bundles["LLaDA-8B-Instruct", "gsm8k"]

    def hours(bundle: object) -> float:
        return estimate.seconds(bundle, bundle.cells)  # type: ignore[attr-defined]

    assert hours(small) < hours(big) < hours(full)
    assert hours(bundles["SDAR-8B-Chat-b32", "humaneval"]) < hours(bundles["SDAR-8B-Chat-b32", "gsm8k"])
    assert estimate.seconds(big, ()) == 0
    one = estimate.seconds(big, big.cells[1:2])
    assert one < estimate.seconds(big, big.cells[1:3]) < hours(big)
    short = replace(big, baseline=replace(big.baseline, prompts=10))
    assert estimate.prompts(short) == 10
    assert estimate.seconds(short, short.cells[1:2]) < one


def test_a_replay_is_estimated_by_the_trace_it_would_record() -> None:
    bundle = grid.read("drafters").bundles()[0]
    assert estimate.seconds(bundle, bundle.cells) == estimate.seconds(bundle, bundle.cells[:1])


def test_less_room_is_estimated_as_less(write_grid: Callable[..., Path]) -> None:
    whole, less = (grid.read(str(write_grid(max_new_tokens=room))).bundles()[0] for room in ("0", "16"))
    assert estimate.seconds(less, less.cells) < estimate.seconds(whole, whole.cells)


def test_more_room_than_the_task_gives_is_an_error(write_grid: Callable[..., Path]) -> None:
    ran = spotbench("plan", write_grid(max_new_tokens="65"))
    assert ran.code == 2
    assert "max_new_tokens: 65 is more than the 64 of tiny-gsm; give less, or 0" in ran.err


def test_a_room_that_leaves_none_for_a_prompt_is_an_error(write_grid: Callable[..., Path], in_folder: Path) -> None:
    ran = spotbench("run", write_grid(tasks='["humaneval"]', prompts="1", allow_code_execution="true"))
    assert ran.code == 2
    assert ran.err.splitlines()[-1] == (
        "spotbench: task humaneval: its 512 tokens for an answer leave no room for a prompt in the 512 of "
        "tiny-sdar-b16; set max_new_tokens in the grid file to less"
    )


def test_two_real_tasks_run_end_to_end(
    tmp_path: Path, write_grid: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path, not the figures: a look-alike can do neither."""
    monkeypatch.setenv("SPOTBENCH_DATA", str(tmp_path / "data"))
    fill(tmp_path)
    file, results = (
        write_grid(
            tasks='["humaneval", "gsm8k"]',
            drafters='["best-first"]',
            prompts="1",
            max_new_tokens="32",
            temperatures="[0.0]",
            allow_code_execution="true",
        ),
        tmp_path / "results",
    )
    ran = spotbench("run", file, "--results", results)
    assert ran.code == 0, ran.err
    store = store_of(results)
    for cell in grid.read(str(file)).cells():
        finished = store.read(cell)
        (sample,) = finished.samples
        assert (sample.exact_match, sample.error, set(sample.scores.values())) == (True, "", {0.0})
        assert len(sample.tokens) <= 32
        settings = finished.manifest["settings"]
        assert settings["max_new_tokens"] == 32
        assert ("processes" in settings["sandbox"].lower()) == (cell.task == "humaneval")
        assert settings["task_version"].startswith("1.0" if cell.task == "humaneval" else "1.0+partial6.")
    rescored = spotbench("rescore", file, "--results", results)
    assert "4 of 4 cells are done and scored, 0 changed" in rescored.out
