"""Grid files: what is wrong ends in one line that names the file, the key and the mend."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from suite import grid
from suite.errors import UserError
from suite.targets import catalog
from tests.suite.tiny_grid import CLI, grid_text, spotbench

WRONG: dict[str, tuple[dict[str, str | None], list[str]]] = {
    "an unknown key": ({"color": '"red"'}, ["'color'", "valid keys", "temperatures", "allow_code_execution"]),
    "a missing key": ({"targets": None}, ["targets", "missing", "add"]),
    "an unknown target": ({"targets": '["llada"]'}, ["targets", "'llada'", "did you mean tiny-llada", "list targets"]),
    "an unknown task": ({"tasks": '["gsm9k"]'}, ["tasks", "'gsm9k'", "tiny-gsm, tiny-ifeval"]),
    "an unknown drafter": ({"drafters": '["chian"]'}, ["drafters", "'chian'", "chain", "best-first"]),
    "an unknown rule": ({"rules": '["greedy"]'}, ["rules", "'greedy'", "threshold(0.9)"]),
    "tau of 1": ({"rules": '["threshold(1)"]'}, ["rules", "between 0 and 1"]),
    "tau of 0": ({"rules": '["threshold(0.0)"]'}, ["rules", "between 0 and 1"]),
    "tau that rounds to 1": ({"rules": '["threshold(0.99999999999999999999)"]'}, ["rules", "tau"]),
    "a draft under a rule that takes none": (
        {"rules": '["exact", "eb(0.1)", "klass(0.9, 0.01)"]'},
        ["rules", "eb(0.1), klass(0.9,0.01)", 'drafters = ["none"]'],
    ),
    "no positions to commit": ({"rules": '["fixed(0)"]'}, ["rules", "1 or more"]),
    "no rows": ({"rows": "[0]"}, ["rows.0", "greater than or equal to 1", "0"]),
    "rows that leave no draft": ({"rows": "[1]"}, ["rows", "2 or more"]),
    "a negative temperature": ({"temperatures": "[-0.5]"}, ["temperatures.0", "greater than or equal to 0", "-0.5"]),
    "a temperature that is no number": ({"temperatures": "[nan]"}, ["temperatures.0", "finite"]),
    "an endless temperature": ({"temperatures": "[inf]"}, ["temperatures.0", "finite"]),
    "an empty axis": ({"temperatures": "[]"}, ["temperatures", "at least 1"]),
    "an axis that is no list": ({"targets": '"tiny-sdar-b16"'}, ["targets", "list"]),
    "text for a number": ({"rows": '["3"]'}, ["rows.0", "integer", "'3'"]),
    "truth for a number": ({"prompts": "true"}, ["prompts", "integer", "True"]),
    "a broken number": ({"rows": "[2.5]"}, ["rows.0", "integer", "2.5"]),
    "a negative seed": ({"seeds": "[-1]"}, ["seeds.0", "greater than or equal to 0"]),
    "an unknown device": ({"device": '"tpu"'}, ["device", "cpu", "cuda"]),
    "an unknown dtype": ({"dtype": '"int8"'}, ["dtype", "float32"]),
    "top-p above 1": ({"top_p": "1.5"}, ["top_p", "less than or equal to 1"]),
    "a name that is a path": ({"name": '"../up"'}, ["name", "'../up'"]),
    "an empty name": ({"name": '""'}, ["name"]),
    "a name longer than a file's may be": ({"name": f'"{"a" * 300}"'}, ["name", "64"]),
    "a name with markup": ({"targets": '["[/red]"]'}, ["targets", "[/red]"]),
    "a name with a line break": ({"targets": '["a\\nb"]'}, ["targets", r"a\nb"]),
    "model-written code without leave": (
        {"tasks": '["tiny-gsm", "tiny-code"]'},
        ["allow_code_execution", "tiny-code", "allow_code_execution = true"],
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_grid_is_one_line_that_names_file_key_and_mend(case: str, write_grid: Callable[..., Path]) -> None:
    changes, wanted = WRONG[case]
    file = write_grid(**changes)
    ran = spotbench("plan", file)
    assert ran.code == 2
    assert ran.out == ""
    assert len(ran.err.splitlines()) == 1, ran.err
    assert [part for part in [str(file), *wanted] if part not in ran.err] == [], ran.err


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"hello world", ["not TOML", "line 1"]),
        (b"rows = [3]\nrows = [4]\n", ["not TOML", "line 2"]),
        (b"\xff\xfe\x00n", ["not TOML"]),
        (b"", ["name", "missing"]),
        (b"[grid]\nname = 'x'\n", ["'grid'", "valid keys"]),
    ],
)
def test_a_file_that_is_no_grid_is_one_line(content: bytes, wanted: list[str], tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_bytes(content)
    ran = spotbench("plan", file)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1), ran.err
    assert [part for part in [str(file), *wanted] if part not in ran.err] == [], ran.err


@pytest.mark.parametrize("path", ["nowhere.toml", ".", "", "[/nope]", "a" * 300])
def test_a_missing_file_is_one_line_that_names_the_shipped_grids(path: str, in_folder: Path) -> None:
    ran = spotbench("plan", path)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1), ran.err
    assert repr(path) in ran.err
    assert "smoke" in ran.err


@pytest.mark.parametrize("verb", ["plan", "run", "status", "check", "report"])
def test_every_verb_says_the_same_of_a_wrong_grid(verb: str, write_grid: Callable[..., Path], in_folder: Path) -> None:
    file = write_grid(rows="[0]")
    ran = spotbench(verb, file)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == spotbench("plan", file).err
    assert not (in_folder / "results").exists()


def test_a_wrong_grid_is_one_line_from_a_process_too(write_grid: Callable[..., Path]) -> None:
    file = write_grid(color='"red"')
    ran = subprocess.run([*CLI, "run", str(file)], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert len(ran.stderr.splitlines()) == 1
    assert "'color'" in ran.stderr


def test_a_number_may_be_written_whole(write_grid: Callable[..., Path]) -> None:
    assert grid.read(str(write_grid(temperatures="[1]"))).cells() == grid.read(str(write_grid())).cells()


def test_what_is_named_twice_is_one_cell(write_grid: Callable[..., Path]) -> None:
    twice = {key: f"[{value.strip('[]')}, {value.strip('[]')}]" for key, value in _axes().items()}
    doubled = grid.read(str(write_grid(**twice))).cells()
    assert doubled == grid.read(str(write_grid())).cells()
    rules = grid.read(str(write_grid(rules='["threshold(0.9)", "threshold(0.90)", "threshold(.9)"]')))
    assert len(rules.bundles()) == 1


def test_the_baseline_is_there_whether_or_not_it_is_named(write_grid: Callable[..., Path]) -> None:
    named = grid.read(str(write_grid(drafters='["chain", "none", "oracle"]', rows="[1, 3]")))
    assert named.cells() == grid.read(str(write_grid())).cells()


def test_an_uncoupled_twin_is_left_out_where_it_is_the_drafter_itself(write_grid: Callable[..., Path]) -> None:
    made = grid.read(
        str(write_grid(temperatures="[0.0, 1.0]", drafters='["chain", "chain-uncoupled"]', tasks='["tiny-gsm"]'))
    )
    run = {(cell.temperature, cell.drafter) for cell in made.cells()}
    assert run == {(0.0, "none"), (0.0, "chain"), (1.0, "none"), (1.0, "chain"), (1.0, "chain-uncoupled")}


def test_a_grid_of_the_baseline_alone_needs_no_room_for_drafts(write_grid: Callable[..., Path]) -> None:
    assert [cell.drafter for cell in grid.read(str(write_grid(drafters='["none"]', rows="[1]"))).cells()] == ["none"]


def test_every_rule_can_be_decoded_plainly(write_grid: Callable[..., Path]) -> None:
    rules = ["exact", "threshold(0.85)", "fixed(2)", "eb(0.1)", "klass(0.9, 0.01)"]
    made = grid.read(str(write_grid(rules=str(rules).replace("'", '"'), drafters='["none"]', rows="[1]")))
    assert [cell.rule for cell in made.cells()] == [*rules[:-1], "klass(0.9,0.01)"]
    drafted = grid.read(str(write_grid(rules='["fixed(2)"]')))
    assert {cell.drafter for cell in drafted.cells()} == {"none", "chain", "oracle"}


def test_every_shipped_grid_can_be_read() -> None:
    assert [name for name in grid.shipped() if grid.read(name).name != name] == []


def test_the_message_of_the_library_is_that_of_the_command_line(write_grid: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match=r"grid\.toml: rows\.0: .*greater than or equal to 1"):
        grid.read(str(write_grid(rows="[0]")))


def _axes() -> dict[str, str]:
    lines = (line.split(" = ", 1) for line in grid_text().splitlines())
    return {key: value for key, value in lines if value.startswith("[")}


def test_contexts_are_for_full_attention_and_commits_what_the_family_has(write_grid: Callable[..., Path]) -> None:
    made = grid.read(
        str(
            write_grid(
                targets='["tiny-sdar-b16", "tiny-llada", "tiny-fast-dllm-b16"]',
                contexts='["whole", "frozen"]',
                commit='"fused"',
            )
        )
    )
    assert [(b.baseline.target, b.baseline.context, b.baseline.commit) for b in made.bundles()] == [
        ("tiny-sdar-b16", "cached", "fused"),
        ("tiny-llada", "whole", "fused"),
        ("tiny-llada", "frozen", "fused"),
        ("tiny-fast-dllm-b16", "cached", "separate"),
    ]
    assert len({bundle.id for bundle in made.bundles()}) == 4
    assert len({bundle.title for bundle in made.bundles()}) == 4


def test_a_context_without_effect_is_refused(write_grid: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match="contexts: 'frozen' is a context of none of the grid's targets"):
        grid.read(str(write_grid(contexts='["frozen"]')))


def test_a_checkpoint_folder_is_a_target_by_a_name_of_its_own(
    write_grid: Callable[..., Path], in_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint as SDAR publishes it: recognised, run, and the same as the catalogue's own entry."""
    shipped = Path(catalog.spec("tiny-sdar-b16").source)
    shutil.copytree(shipped, in_folder / "mine")
    config = json.loads((shipped / "config.json").read_text()) | {"model_type": "sdar", "architectures": ["SDAR"]}
    (in_folder / "mine" / "config.json").write_text(json.dumps(config))
    file = write_grid(targets='["my-sdar"]', sources='{my-sdar = "mine"}', temperatures="[0.0]")
    ran = spotbench("run", file)
    assert ran.code == 0, ran.err
    assert "my-sdar" in ran.out
    assert spotbench("check", file).code == 0
    same = write_grid(temperatures="[0.0]", name='"same"')
    assert spotbench("run", same).code == 0
    mine, its = ([json.loads(line)["tokens"] for line in _samples(in_folder, name)] for name in ("tiny", "same"))
    assert mine == its


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sources": '{other = "x"}'}, "sources: 'other' is none of the grid's targets"),
        ({"targets": '["mine"]', "sources": '{mine = "nowhere"}'}, "nowhere/config.json: cannot be read"),
    ],
)
def test_a_source_that_is_none_is_one_line(
    changes: dict[str, str], says: str, write_grid: Callable[..., Path], in_folder: Path
) -> None:
    ran = spotbench("plan", write_grid(**changes))
    assert (ran.code, len(ran.err.splitlines())) == (2, 1), ran.err
    assert says in ran.err


def _samples(home: Path, name: str) -> list[str]:
    """The lines of the baseline's samples."""
    (path,) = (home / "results").glob(f"*/{name}/*none*/samples.jsonl")
    return path.read_text().splitlines()
