"""Entries on disk: read as they were written, and refused where they contradict themselves."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports import entry
from suite.errors import UserError
from tests.reports.made_entries import made_entry


def test_an_entry_is_read_as_it_was_written(tmp_path: Path) -> None:
    one = made_entry("Mine@0123abcd")
    path = entry.write(one, tmp_path / one.file)
    assert entry.read(path) == one
    assert list(entry.holes(one)) == []
    assert path.name == "tiny-sdar-b16.exact.Mine@0123abcd.json"


def test_a_later_folder_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    for folder, speed in [("a", 2.0), ("b", 3.0)]:
        entry.write(made_entry(speed=speed), tmp_path / folder / "x.json")
    (one,) = entry.read_all(tmp_path / "a", tmp_path / "b", tmp_path / "none")
    assert one == made_entry(speed=3.0)


def forge(values: dict[str, Any]) -> None:
    values["results"][1]["budgets"][0]["pass_reduction"] = [9.9, 9.8, 10.0]


def forge_pooled(values: dict[str, Any]) -> None:
    values["pooled"][0]["pass_reduction"][1] = 9.9


def forge_passes(values: dict[str, Any]) -> None:
    values["results"][0]["budgets"][0]["passes"] = [1] * 6


def drop_a_prompt(values: dict[str, Any]) -> None:
    del values["results"][0]["budgets"][0]["passes"][3]


def repeat(values: dict[str, Any]) -> None:
    values["results"].append(values["results"][0])


def drop_a_pooled(values: dict[str, Any]) -> None:
    del values["pooled"][0]


def no_passes(values: dict[str, Any]) -> None:
    values["results"][0]["budgets"][0]["passes"][0] = 0


def too_exact(values: dict[str, Any]) -> None:
    values["results"][0]["budgets"][0]["exact"] = 99


def future(values: dict[str, Any]) -> None:
    values["version"] = 2


def misspell(values: dict[str, Any]) -> None:
    values["drafter_"] = values.pop("drafter")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (forge, "tiny-gsm T=1 3 rows: pass_reduction 9.9 [9.8, 10.0], its passes make 2."),
        (forge_pooled, "pooled T=0 3 rows: pass_reduction"),
        (forge_passes, "pooled T=0 3 rows: pass_reduction"),
        (drop_a_prompt, "tiny-gsm T=0 3 rows: passes of 5 prompts, the baseline's are of 6"),
        (repeat, "results: tiny-gsm T=0 is there twice"),
        (drop_a_pooled, "pooled: not the temperatures and budgets of the results"),
        (no_passes, "results.0.budgets.0.passes.0: Input should be greater than or equal to 1"),
        (too_exact, "tiny-gsm T=0 3 rows: 99 exact answers and 0 ties of 6 prompts"),
        (future, "version: Input should be 1"),
        (misspell, "drafter: Field required"),
    ],
)
def test_what_contradicts_itself_is_refused_in_one_line(
    change: Callable[[dict[str, Any]], None], said: str, tmp_path: Path
) -> None:
    values = json.loads(made_entry().model_dump_json())
    change(values)
    path = tmp_path / "entry.json"
    path.write_text(json.dumps(values))
    with pytest.raises(UserError) as error:
        entry.read(path)
    assert str(error.value).startswith(f"{path}: {said}")
    assert "\n" not in str(error.value)


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "entry.json"
    path.write_text("{")
    with pytest.raises(UserError, match="file: Invalid JSON"):
        entry.read(path)
    with pytest.raises(UserError, match="cannot be read"):
        entry.read(tmp_path / "none.json")


def test_holes_are_told() -> None:
    one = made_entry()
    cut = one.model_copy(update={"results": one.results[:-1]})
    assert list(entry.holes(cut)) == ["tiny-math T=1 3 rows is missing", "tiny-math T=1 9 rows is missing"]
    short = one.model_copy(update={"settings": one.settings.model_copy(update={"prompts": 100})})
    assert next(entry.holes(short)) == "tiny-gsm T=0: 6 of 100 prompts"


def test_the_shipped_entries_are_whole() -> None:
    for one in entry.read_all(entry.SHIPPED):
        assert list(entry.holes(one)) == [], one.file
        assert one.tiny
        assert (entry.SHIPPED / one.file).exists(), "under the name that it goes by"
