"""What is recorded of the machine and the code."""

import re
from pathlib import Path

import pytest

from suite import machine


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree that the code's hash is taken of."""
    for name in ("suite/machine.py", "tasks/a/task.yaml", "tasks/a/test.jsonl", "drafters/b.py", "reports/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(machine, "__file__", str(tmp_path / "suite" / "machine.py"))
    return tmp_path


@pytest.mark.parametrize("name", ["suite/machine.py", "tasks/a/task.yaml", "tasks/a/test.jsonl", "drafters/b.py"])
def test_whatever_can_change_an_output_changes_the_hash_of_the_code(name: str, source: Path) -> None:
    before = machine.code_hash.__wrapped__()
    assert machine.code_hash.__wrapped__() == before
    (source / name).write_text("other")
    changed = machine.code_hash.__wrapped__()
    (source / name).rename((source / name).with_stem("renamed"))
    assert len({before, changed, machine.code_hash.__wrapped__()}) == 3


@pytest.mark.parametrize("name", ["reports/c.py", "suite/notes.txt", "suite/__pycache__/machine.pyc"])
def test_what_cannot_change_an_output_does_not(name: str, source: Path) -> None:
    before = machine.code_hash.__wrapped__()
    (source / name).parent.mkdir(exist_ok=True)
    (source / name).write_text("other")
    assert machine.code_hash.__wrapped__() == before


@pytest.mark.parametrize(
    "cpu", ["Intel(R) Xeon(R) Processor @ 2.80GHz", "AMD EPYC 9654 96-Core Processor", "aarch64", "../../x y/z"]
)
def test_a_machine_is_named_by_what_it_is_in_a_plain_file_name(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_cpu", lambda: cpu)
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*[a-z0-9]", machine.name())
    assert "ghz" not in machine.name()


def test_a_package_that_is_missing_is_recorded_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "PACKAGES", ("no-such-package",))
    assert machine.versions()["no-such-package"] == "not installed"
