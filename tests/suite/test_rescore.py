"""Stored answers scored anew: what changes, what stays, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from suite import grid, records
from suite.cells import Cell
from suite.errors import UserError
from suite.records import Sample
from suite.store import Store
from tasks import harness
from tasks.harness import Task
from tests.suite.tiny_grid import Ran, contents, finish_grid, grid_text, made_sample, spotbench, store_of


class Stored:
    """A grid of two methods, DONE, with answers that are right by the task as it is."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.file, self.results = folder / "grid.toml", folder / "results"
        self.file.write_text(grid_text(drafters='["chain"]'))
        self.cells, self.store = grid.read(str(self.file)).cells(), store_of(self.results)
        self.task = harness.load("tiny-gsm")
        self.questions = [one.question for one in self.task.requests(lambda _: "", 2)]
        finish_grid(self.store, self.cells, none=self.samples(**changes), chain=self.samples(**changes))

    def samples(self, **changes: Any) -> list[Sample]:
        return [
            made_sample(
                n,
                **{
                    "text": self.task.gold(n),
                    "question": self.questions[n],
                    "scores": self.task.score(n, self.task.gold(n)),
                }
                | changes,
            )
            for n in range(2)
        ]

    def rescore(self) -> Ran:
        return spotbench("rescore", self.file, "--results", self.results)

    def scores(self) -> list[list[float]]:
        return [[sample.scores["exact_match"] for sample in self.store.read(cell).samples] for cell in self.cells]


def measured(store: Store) -> dict[str, bytes]:
    return {name: content for name, content in contents(store.root).items() if "/scores/" not in name}


def stricter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task now finds the first item's answer wrong."""
    monkeypatch.setattr(Task, "self_check", lambda self: None)
    monkeypatch.setattr(Task, "_score", lambda self, n, text: {"exact_match": float(n > 0), "flexible_match": 1.0})


def test_new_scores_lie_beside_the_old_and_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Stored(tmp_path)
    before = measured(stored.store)
    assert stored.scores() == [[1.0, 1.0]] * 2
    stricter(monkeypatch)
    ran = stored.rescore()
    assert ran.code == 0, ran.err
    assert "tiny: 2 of 2 cells are done and scored, 2 changed" in ran.out
    assert [line.split()[1:] for line in ran.out.splitlines()[1:3]] == [["1", "1.000", "0.500"]] * 2
    assert stored.scores() == [[0.0, 1.0]] * 2
    assert measured(stored.store) == before, "what was measured stays as it was"
    settings = stored.store.read(stored.cells[0]).manifest["settings"]
    assert (settings["task_version"], settings["metric"]) == ("1.0", "exact_match")
    assert set(settings["rescored"]) == {"when", "measured_with"}
    report = spotbench("report", stored.file, "--results", stored.results)
    assert "The answers of 2 cells were scored anew" in (stored.store.root / "report.md").read_text()
    assert [line.split()[-2] for line in report.out.splitlines() if line.startswith(("none", "chain"))] == ["0.50"] * 2


def test_a_second_time_there_is_nothing_to_write_until_the_scoring_changes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = Stored(tmp_path)
    with monkeypatch.context() as patch:
        stricter(patch)
        stored.rescore()
        once = contents(stored.store.root)
        assert "0 changed" in stored.rescore().out
        assert contents(stored.store.root) == once
    assert "2 changed" in stored.rescore().out
    assert stored.scores() == [[1.0, 1.0]] * 2
    names = {path.name for path in stored.store.root.glob("*/scores/*")}
    assert names == {"1.json", "2.json"}


def test_another_version_with_the_same_scores_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Stored(tmp_path)
    load = harness.load

    def newer(name: str) -> Task:
        task = load(name)
        task.version = "2.0"
        return task

    monkeypatch.setattr(harness, "load", newer)
    assert "0 changed" in stored.rescore().out
    settings = stored.store.read(stored.cells[0]).manifest["settings"]
    assert settings["task_version"] == "2.0"


@pytest.mark.parametrize(
    ("question", "fault"), [("0" * 16, "its prompt 0 was another one"), ("", "it does not say what was asked")]
)
def test_answers_to_other_questions_are_not_scored(question: str, fault: str, tmp_path: Path) -> None:
    stored = Stored(tmp_path, question=question)
    before = contents(stored.store.root)
    ran = stored.rescore()
    assert (ran.code, len(ran.err.splitlines()[-1:])) == (2, 1)
    assert fault in ran.err
    assert contents(stored.store.root) == before


def test_a_prompt_without_an_answer_gets_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Stored(tmp_path, error="too long", finish="error", scores={}, text="")
    stricter(monkeypatch)
    assert "0 changed" in stored.rescore().out
    assert [sample.scores for sample in stored.store.read(stored.cells[0]).samples] == [{}, {}]


@pytest.mark.parametrize(
    ("damage", "fault"),
    [({"samples": "0"}, "scores of other answers"), ({"new": 1}, "not a result"), ({"schema": 99}, "schema 99")],
)
def test_damaged_scores_are_one_line(
    damage: dict[str, Any], fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = Stored(tmp_path)
    stricter(monkeypatch)
    stored.rescore()
    (path,) = (stored.store.root / stored.cells[0].id / "scores").iterdir()
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    with pytest.raises(UserError, match=fault):
        stored.store.read(stored.cells[0])


def test_check_wants_the_cells_of_a_grid_scored_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Stored(tmp_path)
    stricter(monkeypatch)
    other = tmp_path / "other.toml"
    other.write_text(grid_text(drafters='["none"]', rows="[1]"))
    assert spotbench("rescore", other, "--results", stored.results).code == 0
    found = spotbench("check", stored.file, "--results", stored.results)
    assert found.code == 1
    assert "spotbench rescore scores them alike" in found.out
    assert stored.rescore().code == 0
    assert spotbench("check", stored.file, "--results", stored.results).code == 0


def test_results_of_the_first_schema_are_still_read(tmp_path: Path) -> None:
    cell = Cell("tiny-sdar-b16", "tiny-gsm", 0.0, "exact", 0, "none", 1, 1)
    new = records.as_json(made_sample())
    assert (
        Sample.from_json({key: value for key, value in new.items() if key not in ("question", "error")})
        == made_sample()
    )
    summary = records.as_json(records.summarise([made_sample()], "exact_match"))
    del summary["errors"]
    assert records.Summary(**summary) == records.summarise([made_sample()], "exact_match")
    values = records.as_json(cell)
    del values["max_new_tokens"]
    assert Cell.from_json(values) == cell
