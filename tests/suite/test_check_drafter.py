"""check-drafter and new-drafter: what is found, and that nothing is found where nothing is wrong."""

import re
from pathlib import Path
from typing import Any

import pytest

import drafters
from drafters import guard
from suite import check_drafter
from suite.check_drafter import CHECKS, Finding, check
from suite.decoding.decode import Decoded
from tests.suite.tiny_grid import spotbench

HEAD = """
import random
from drafters import Drafter
from suite.decoding.state import fill, masked

class Mine(Drafter):
    def one(self, view, position):
        return fill(view.state, [position], [view.choice(view.committed).tokens[position][0]])
"""

FAULTY = {
    "random without a seed": (
        "return [self.one(view, random.choice(masked(view.state)))]",
        "deterministic: asked twice about one view, drafter Mine@{} proposes two things",
    ),
    "changes its view": (
        """first = masked(view.state)[0]
        drafts = [self.one(view, first)]
        view.choice(view.committed).tokens[first][0] = 3
        return drafts""",
        "deterministic: asked twice",
    ),
    "counts prompts": (
        """return [self.one(view, masked(view.state)[self.prompts % 2])]
    prompts = 0
    def start(self, future):
        self.prompts += 1""",
        "deterministic: a fresh drafter Mine@{} proposes other things than one that has seen other prompts",
    ),
    "only the second one drafts": (
        """return [self.one(view, i) for i in masked(view.state)[:rows]] if self.number == 2 else []
    made = 0
    def __init__(self):
        Mine.made += 1
        self.number = Mine.made""",
        "replayable: prompt 0 takes",
    ),
    "too many": ("return [view.state] * (rows + 1)", "legal: drafter Mine@{} proposed 5 states where 4 were allowed"),
    "rewrites": ("return [(-1,) * len(view.state)]", "legal: drafter Mine@{} proposed a mask at position"),
    "raises": ("1 / 0", "legal: drafter Mine@{} raised ZeroDivisionError in propose: division by zero"),
    "cannot be made": (
        """return []
    def __init__(self):
        raise RuntimeError("no weights")""",
        "legal: drafter Mine@{} raised RuntimeError when it was made: no weights",
    ),
    "hangs": ("while True: pass", "legal: drafter Mine@{} was not done with propose after 1 s"),
}
"""The body of propose and what follows it, and what is said about it."""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One setting, two prompts."""
    monkeypatch.setattr(check_drafter, "SETTINGS", [(1.0, "exact")])
    monkeypatch.setattr(check_drafter, "ROWS", (5,))
    monkeypatch.setattr(check_drafter, "PROMPTS", 2)
    monkeypatch.setattr(guard, "LIMIT_S", 1.0)


def written(folder: Path, body: str) -> str:
    (folder / "mine.py").write_text(f"{HEAD}\n    def propose(self, view, rows):\n        {body}\n")
    return f"{folder / 'mine.py'}:Mine"


@pytest.mark.parametrize("case", FAULTY)
def test_each_fault_is_one_line_and_an_exit_code(case: str, quick: None, tmp_path: Path) -> None:
    body, says = FAULTY[case]
    ran = spotbench("check-drafter", name := written(tmp_path, body))
    assert (ran.code, "Traceback" in ran.out + ran.err) == (1, False)
    lines = [line for line in ran.out.splitlines() if line.startswith("fault ")]
    assert lines[0].startswith(f"fault {says.format(drafters.known(name)[-8:])}"), lines
    assert "(T=1 exact 5 rows)" in lines[0]
    assert len(lines) == 1 or says.startswith("replayable"), "one fault for each prompt"
    row = next(line for line in ran.out.splitlines() if line.startswith(says.partition(":")[0]))
    assert re.search(r"\d faults", row)


@pytest.mark.usefixtures("quick")
def test_a_decode_that_leaves_the_baseline_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = check_drafter.decode

    def other_noise(target: Any, prompt: Any, policy: Any, drafter: Any, rows: int, seed: int, future: Any) -> Decoded:
        return real(target, prompt, policy, drafter, rows, seed + 1, future)

    monkeypatch.setattr(check_drafter, "decode", other_noise)
    (found,) = check("chain")
    assert "lossless" in {fault.check for fault in found.faults}


def test_one_fault_in_many_settings_is_one_line() -> None:
    fault = check_drafter.Fault("legal", "it fell")
    found = [Finding(0.0, "exact", rows, {}, faults=(fault, fault)) for rows in (2, 5, 17)]
    assert check_drafter.fault_lines(found) == ["legal: it fell (T=0 exact 2 rows and 2 more)"]


def test_a_drafter_that_hangs_is_not_asked_in_every_setting(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_drafter, "ROWS", (2, 5, 17))
    ran = spotbench("check-drafter", written(tmp_path, "while True: pass"))
    assert "not in 2 of 3 settings" in ran.out
    assert "1 of 3 settings" in ran.out


@pytest.mark.parametrize("name", drafters.names())
def test_shipped_drafters_have_no_fault(name: str, quick: None) -> None:
    (found,) = check(name)
    assert found.faults == ()
    assert found.passes[name] <= found.passes["none"]


def test_the_template_passes_in_every_setting_and_stands_where_chain_does(tmp_path: Path) -> None:
    file = tmp_path / "my_drafter.py"
    wrote = spotbench("new-drafter", file)
    assert (wrote.code, f"spotbench check-drafter {file}:MyDrafter" in wrote.out) == (0, True)
    assert len(file.read_text().splitlines()) <= 25
    ran = spotbench("check-drafter", f"{file}:MyDrafter")
    assert (ran.code, "fault " in ran.out) == (0, False), ran.out
    lines = ran.out.splitlines()
    assert [line.split()[1] for line in lines[: len(CHECKS)]] == ["ok"] * len(CHECKS)
    standing = [re.findall(r"\S+", line.partition(",")[2])[1:] for line in lines if line.startswith("T = ")]
    assert len(standing) == 12
    for line, (_, none, chain, _, mine) in zip(
        [line for line in lines if line.startswith("T = ")], standing, strict=True
    ):
        assert float(mine) <= float(none)
        assert mine == chain or "exact" not in line
    assert re.search(r"drafting: [\d.]+ ms a pass, at worst [\d.]+ ms, \d+% of the decode time", ran.out)


def test_the_example_of_the_page_passes(quick: None, tmp_path: Path) -> None:
    page = (Path(drafters.__file__).parent / "README.md").read_text()
    example, card = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    imports, method = card.split("\n\n")
    example = f"{imports}\n{example}\n{method}"
    (tmp_path / "example.py").write_text(example)
    (name,) = re.findall(r"class (\w+)\(Drafter\)", example)
    (found,) = check(f"{tmp_path / 'example.py'}:{name}")
    assert found.faults == ()
    assert found.passes[drafters.known(f"{tmp_path / 'example.py'}:{name}")] < found.passes["none"]


def test_a_new_drafter_overwrites_nothing(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("precious")
    for path, wanted in [(file, "already"), (tmp_path / "mine", ".py"), (tmp_path / "no" / "mine.py", "No such file")]:
        ran = spotbench("new-drafter", path)
        assert (ran.code, len(ran.err.splitlines()), wanted in ran.err) == (2, 1, True), ran.err
    assert file.read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


def test_the_verbs_of_the_page_are_verbs(in_folder: Path) -> None:
    page = (Path(drafters.__file__).parent / "README.md").read_text()
    for verb in set(re.findall(r"^spotbench ([a-z-]+)", page, re.MULTILINE)):
        assert spotbench(verb, "--help").code == 0
    assert spotbench("new-drafter", "my_drafter.py").code == 0
    assert spotbench("plan", "smoke", "--drafter", "my_drafter.py:MyDrafter").code == 0
