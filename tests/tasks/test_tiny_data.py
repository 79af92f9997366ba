"""The frozen lines of the tiny tasks: reproducible, enough of them, and no prompt in two splits."""

import json
from pathlib import Path
from typing import Any

import pytest

from tasks import tiny

HOME = Path(tiny.__file__).parent


def lines(task: str, split: str) -> list[dict[str, Any]]:
    file = HOME / task.replace("-", "_") / f"{split}.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("task", tiny.GENERATORS)
def test_files_are_what_the_generators_write(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny, "GENERATORS", {task: tiny.GENERATORS[task]})
    tiny.write(tmp_path)
    for split in tiny.ITEMS_PER_SPLIT:
        name = Path(task.replace("-", "_")) / f"{split}.jsonl"
        assert (HOME / name).read_bytes() == (tmp_path / name).read_bytes()


@pytest.mark.parametrize("task", tiny.GENERATORS)
def test_another_seed_gives_other_items(task: str) -> None:
    assert tiny.unique(task, "test", tiny.SEED, 20) != tiny.unique(task, "test", tiny.SEED + 1, 20)


@pytest.mark.parametrize("task", tiny.GENERATORS)
def test_no_prompt_is_in_two_splits(task: str) -> None:
    prompts = [" ".join(item["prompt"].lower().split()) for split in ("train", "test") for item in lines(task, split)]
    assert len(prompts) == len(set(prompts))


@pytest.mark.parametrize("task", tiny.GENERATORS)
def test_enough_items_with_ids_of_their_own(task: str) -> None:
    ids = [item["id"] for split in ("train", "test") for item in lines(task, split)]
    assert len(ids) == len(set(ids))
    assert len(lines(task, "test")) >= 200
