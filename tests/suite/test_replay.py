"""Replayed results: those of a live run without the times, made without the target once the trace is there."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import drafters
from drafters.base import Drafter, DraftView
from suite.decoding.state import State
from suite.targets import catalog, load
from tests.suite.tiny_grid import spotbench

SAME = ("prompt_hash", "tokens", "text", "finish", "verify_passes", "commit_passes", "rows", "depths", "scores")


def samples(results: Path, device: str) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Of every finished cell of a device, by drafter and rows."""
    found = {}
    for path in results.glob("*/*/*/manifest.json"):
        cell = json.loads(path.read_text())["cell"]
        if cell["device"] == device:
            lines = (path.parent / "samples.jsonl").read_text().splitlines()
            found[cell["drafter"], cell["rows"]] = [json.loads(line) for line in lines]
    return found


def test_a_replayed_grid_is_the_live_one_without_the_times(write_grid: Callable[..., Path], in_folder: Path) -> None:
    names = ["chain", "best-first", "oracle", "perfect", "random", "left-to-right"]
    file = write_grid(drafters=json.dumps(names), rows="[2, 3, 9]", temperatures="[1.0]")
    assert spotbench("run", file).code == 0
    replayed = spotbench("replay", file)
    assert replayed.code == 0, replayed.err
    assert "replayed" in replayed.out
    assert "speed-up" not in replayed.out.split("Per prompt")[0]
    live, again = samples(in_folder / "results", "cpu"), samples(in_folder / "results", "replay")
    assert live.keys() == again.keys()
    assert len(live) == 1 + 3 * len(names)
    for method, mine in live.items():
        for one, other in zip(mine, again[method], strict=True):
            assert {key: one[key] for key in SAME} == {key: other[key] for key in SAME}, method
            assert one["stale"] == other["stale"]
            assert other["verify_s"] == other["host_s"] == other["prefill_s"] == 0
    assert spotbench("check", file, "--replayed").code == 0
    assert spotbench("replay", file).code == 0


TINY = [spec.name for spec in catalog.CATALOG.values() if spec.tiny]
EVERYWHERE = [
    (target, temperature, rule)
    for n, target in enumerate(TINY)
    for temperature, rule in ((float(n % 2), "exact"), (float(1 - n % 2), "threshold(0.9)"))
]
"""Every target under both rules, each at one temperature."""


@pytest.mark.parametrize(("target", "temperature", "rule"), EVERYWHERE)
def test_every_drafter_replays_as_it_decodes_on_every_target(
    target: str, temperature: float, rule: str, write_grid: Callable[..., Path], in_folder: Path
) -> None:
    file = write_grid(
        targets=json.dumps([target]),
        tasks='["tiny-ifeval"]',
        temperatures=f"[{temperature}]",
        rules=json.dumps([rule]),
        drafters=json.dumps([name for name in drafters.names() if name != "none"]),
        rows="[9]",
        prompts="1",
    )
    ran = spotbench("run", file)
    assert ran.code == 0, ran.out + ran.err
    assert spotbench("replay", file).code == 0
    live, again = samples(in_folder / "results", "cpu"), samples(in_folder / "results", "replay")
    assert live.keys() == again.keys()
    for method, (one,) in live.items():
        assert one["exact_match"], method
        assert {key: one[key] for key in SAME} == {key: again[method][0][key] for key in SAME}, method


def test_no_target_is_needed_once_there_is_a_trace(
    write_grid: Callable[..., Path], in_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = spotbench("record", "--target", "tiny-sdar-b16", "--task", "tiny-gsm", "--temperature", "1", "--prompts", "2")
    assert ran.code == 0, ran.err
    assert "2 prompts" in ran.out
    monkeypatch.setattr(load, "load", lambda *_: pytest.fail("the target was loaded"))
    assert spotbench("replay", write_grid()).code == 0
    more = spotbench("replay", write_grid(prompts="1", name='"fewer"'))
    assert more.code == 0, more.err


def test_what_a_grid_lacks_is_recorded(write_grid: Callable[..., Path], in_folder: Path) -> None:
    assert spotbench("replay", write_grid(prompts="1", name='"one"')).code == 0
    (folder,) = (in_folder / "traces").iterdir()
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*.safetensors")}
    assert len(before) == 1
    assert spotbench("replay", write_grid(prompts="2", name='"two"')).code == 0
    assert len(list(folder.glob("*.safetensors"))) == 2
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())


def test_a_trace_of_other_weights_is_refused(write_grid: Callable[..., Path], in_folder: Path) -> None:
    assert spotbench("replay", write_grid(prompts="1", name='"one"')).code == 0
    (path,) = (in_folder / "traces").glob("*/trace.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"weights": "others"}))
    ran = spotbench("replay", write_grid(prompts="2", name='"two"'))
    assert (ran.code, len(ran.err.splitlines()[-1:])) == (2, 1)
    assert "recorded with weights 'others'" in ran.err


@pytest.mark.parametrize(("field", "value"), [("weights", "others"), ("task_version", "0.1"), ("max_new_tokens", 3)])
def test_a_whole_trace_of_something_else_is_refused_too(
    field: str, value: object, write_grid: Callable[..., Path], in_folder: Path
) -> None:
    assert spotbench("replay", write_grid(prompts="1", name='"one"')).code == 0
    (path,) = (in_folder / "traces").glob("*/trace.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    ran = spotbench("replay", write_grid(prompts="1", name='"again"'))
    assert ran.code == 2
    assert f"recorded with {field} {value!r}" in ran.err


def test_a_prompt_that_was_removed_is_recorded_again_and_no_other_takes_its_place(
    write_grid: Callable[..., Path], in_folder: Path
) -> None:
    assert spotbench("replay", write_grid(prompts="3", name='"three"')).code == 0
    (path,) = (in_folder / "traces").glob("*/0.safetensors")
    path.unlink()
    assert spotbench("replay", write_grid(prompts="2", name='"two"')).code == 0
    assert path.exists()
    (lines,) = (in_folder / "results").glob("*/two/*none*/samples.jsonl")
    assert [json.loads(line)["doc_id"] for line in lines.read_text().splitlines()] == [0, 1]


class Raising(Drafter):
    """Fails at its first proposal."""

    name = "raising"

    def propose(self, view: DraftView, rows: int) -> list[State]:
        raise RuntimeError("no idea")


def test_a_drafter_that_fails_leaves_the_others_alone(
    write_grid: Callable[..., Path], in_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(drafters.base._REGISTRY, "raising", Raising)
    ran = spotbench("replay", write_grid(drafters='["raising", "chain"]', prompts="1"))
    assert ran.code == 1
    assert "no idea" in ran.out
    assert set(samples(in_folder / "results", "replay")) == {("none", 1), ("chain", 3)}


def test_the_train_split_is_recorded_apart(in_folder: Path) -> None:
    command = ["record", "--target", "tiny-sdar-b16", "--task", "tiny-math", "--temperature", "0", "--prompts", "2"]
    assert spotbench(*command, "--split", "train").code == 0
    assert spotbench(*command).code == 0
    heads = [json.loads(path.read_text())["split"] for path in (in_folder / "traces").glob("*/trace.json")]
    assert sorted(heads) == ["test", "train"]
    assert spotbench(*command[:-1], "201", "--split", "train").code == 0, "more than the test split has"
    assert spotbench(*command, "--split", "validation").code == 2
    assert spotbench("record", "--target", "nobody", "--task", "tiny-gsm", "--temperature", "0").code == 2


def test_a_replay_grid_is_not_run(write_grid: Callable[..., Path], in_folder: Path) -> None:
    ran = spotbench("run", write_grid(device='"replay"'))
    assert ran.code == 2
    assert "spotbench replay" in ran.err
