"""Drafters of other people: where they are found, and what becomes of those that misbehave."""

import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import drafters
from drafters import Drafter, DraftError, DraftView, guard, registry
from drafters.base import stale_view
from drafters.guard import DraftTimeoutError, proposals
from suite import grid, runner
from suite.decoding.policy import Policy
from suite.decoding.state import MASK, State
from suite.errors import UserError
from tests.suite.tiny_grid import grid_text, spotbench, store_of

GOOD = """
import drafters
from drafters import Drafter
class Mine(Drafter):
    "Proposes nothing."
    def propose(self, view, rows):
        return []
"""

BAD = {
    "Raises": ("raise ZeroDivisionError('by [/nought]\\nsecond line')", "raised ZeroDivisionError in propose: by [/"),
    "Asserts": ("assert rows > 99", "raised AssertionError in propose"),
    "Exits": ("raise SystemExit(3)", "raised SystemExit in propose: 3"),
    "Hangs": ("while True: pass", "was not done with propose after 1 s"),
    "TooMany": ("return [view.state] * (rows + 1)", "proposed 3 states where 2 were allowed"),
    "Nothing": ("return None", "proposed None; propose returns a list of states"),
    "OneState": ("return view.state", "; propose returns a list of states"),
    "Lists": ("return [list(view.state)]", "; a state is a tuple of ints"),
    "Tensors": ("return [view.token_ids[:, 0]]", "proposed tensor(["),
    "Floats": ("return [tuple(map(float, view.state))]", "; a state is a tuple of ints"),
    "Short": ("return [view.state[:-1]]", "proposed a state of length 15; a block has 16"),
    "Outside": ("return [tuple(10**6 if t < 0 else t for t in view.state)]", "proposed token 1000000, outside the voc"),
    "Below": ("return [tuple(-2 if t < 0 else t for t in view.state)]", "proposed token -2, outside the vocabulary"),
    "Rewrites": ("return [tuple(t if t < 0 else 3 + (t == 3) for t in view.state)]", "is committed"),
    "Unfills": ("return [(-1,) * len(view.state)]", "proposed a mask at position"),
}
"""What a drafter does, and what is said about it."""


def bad_file(folder: Path) -> Path:
    file = folder / "bad.py"
    methods = [
        f"class {name}(Drafter):\n    def propose(self, view, rows):\n        {body}" for name, (body, _) in BAD.items()
    ]
    methods += [
        "class Unborn(Drafter):\n    def __init__(self): raise RuntimeError('no weights')\n    propose = None",
        "class Startless(Mine):\n    def start(self, future): raise KeyError('no start')",
    ]
    file.write_text(GOOD + "\n".join(methods))
    return file


def test_each_bad_drafter_fails_its_own_cell_by_name_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "LIMIT_S", 1.0)
    file, bad = tmp_path / "tiny.toml", bad_file(tmp_path)
    file.write_text(grid_text(drafters='["chain", "oracle"]', prompts="1"))
    said = {name: says for name, (_, says) in BAD.items()}
    said |= {"Unborn": "RuntimeError: no weights", "Startless": "raised KeyError in start: 'no start'"}
    added = [f"--drafter={bad}:{name}" for name in [*said, "Mine"]]
    ran = spotbench("run", file, "--results", tmp_path / "results", *added)
    assert ran.code == 1
    assert "Traceback" not in ran.out + ran.err
    lines = [line for line in ran.out.splitlines() if line.startswith("failed")]
    assert len(lines) == len(said)
    for name, says in said.items():
        (line,) = [line for line in lines if f".{name}-" in line]
        assert says in line
        assert name == "Unborn" or f"DraftError: drafter {name}@" in line.replace("DraftTimeoutError", "DraftError")
    store = store_of(tmp_path / "results")
    done = {c.drafter.partition("@")[0] for c in grid.read(str(file), [f"{bad}:Mine"]).cells() if store.done(c)}
    assert done == {"none", "chain", "oracle", "Mine"}
    assert str(tmp_path) not in ran.out.partition("failed")[0].partition("results:")[0]


# --- calls into a drafter ------------------------------------------------------------------------


class Made(Drafter):
    name = "made"

    def __init__(self, propose: Callable[[], list[State]]) -> None:
        self._propose = propose

    def propose(self, view: DraftView, rows: int) -> list[State]:
        return self._propose()


def ask(propose: Callable[[], list[State]]) -> list[State]:
    import torch

    view = stale_view(torch.zeros(3, 9), (1, MASK, MASK), (1, MASK, MASK), 0, Policy(3, 3), seed=0)
    return proposals(Made(propose), view, 4, 9)


def test_wasted_states_are_legal() -> None:
    wasted: list[State] = [(1, MASK, MASK), (1, 2, 3), (1, 2, 3), (1, MASK, 4)]
    assert ask(lambda: wasted) == wasted


def test_an_alarm_that_is_swallowed_rings_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "LIMIT_S", 0.05)

    def stubborn() -> list[State]:
        try:
            time.sleep(60)
        except BaseException:  # noqa: BLE001 - as a destructor does
            time.sleep(60)
        return []

    with pytest.raises(DraftTimeoutError, match="made was not done with propose after 0.05 s"):
        ask(stubborn)


def test_a_call_leaves_no_alarm_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> list[State]:
        raise ValueError

    before = signal.getsignal(signal.SIGALRM)
    ask(list)
    with pytest.raises(DraftError):
        ask(fail)
    monkeypatch.setattr(guard, "LIMIT_S", 0.05)
    with pytest.raises(DraftTimeoutError):
        ask(lambda: time.sleep(9) or [])
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)) == (before, (0.0, 0.0))


def test_outside_the_main_thread_there_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "LIMIT_S", 0.01)
    answers: list[list[State]] = []
    thread = threading.Thread(target=lambda: answers.append(ask(lambda: time.sleep(0.1) or [])))
    thread.start()
    thread.join()
    assert answers == [[]]


def test_an_interrupt_is_no_fault_of_the_drafter() -> None:
    def interrupt() -> list[State]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(interrupt)


# --- file.py:Class -------------------------------------------------------------------------------


def written(folder: Path, content: str = GOOD, name: str = "mine.py") -> str:
    (folder / name).write_text(content)
    return f"{folder / name}:Mine"


def test_a_name_follows_the_content_and_not_the_path(tmp_path: Path) -> None:
    name = drafters.known(written(tmp_path))
    assert re.fullmatch(r"Mine@[0-9a-f]{8}", name)
    assert drafters.known(written(tmp_path, name="other.py")) == name
    assert drafters.known(written(tmp_path, GOOD + "\n")) != name
    assert drafters.make(name).name == name
    assert drafters.about(name) == "Proposes nothing."
    assert drafters.make(name) is not drafters.make(name)


def test_a_file_that_is_changed_while_a_process_runs_stays_what_it_was_there(tmp_path: Path) -> None:
    name = drafters.known(written(tmp_path))
    written(tmp_path, GOOD.replace("nothing", "something"))
    assert drafters.about(name) == "Proposes nothing."


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("", ["mine.py: no class 'Mine'", "none"]),
        (GOOD.replace("Mine", "Yours"), ["no class 'Mine'", "Yours"]),
        ("Mine = 3", ["Mine is not a Drafter", "derive"]),
        ("class Mine: pass", ["Mine is not a Drafter", "derive"]),
        ("from drafters import Drafter\nclass Mine(Drafter): pass", ["Mine lacks the method propose"]),
        ("\ndef f(:\n", ["mine.py, line 2: invalid syntax"]),
        ("\0", ["mine.py"]),
        ("import nowhere_to_be_found", ["cannot be loaded", "ModuleNotFoundError", "nowhere_to_be_found"]),
        ("raise ValueError('a\\nb [/c]')", ["cannot be loaded", "ValueError: a"]),
        ("import sys; sys.exit()", ["cannot be loaded", "SystemExit"]),
        (
            GOOD.replace("nothing.\"", "nothing.\"\n    name = 'chain'") + "drafters.register(Mine)",
            ["drafter 'chain' already", "no register"],
        ),
    ],
)  # fmt: skip
def test_a_file_that_gives_no_drafter_is_one_line(content: str, wanted: list[str], tmp_path: Path) -> None:
    ran = spotbench("plan", "smoke", "--drafter", written(tmp_path, content))
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), ran.err
    assert [part for part in wanted if part not in ran.err] == [], ran.err
    assert type(drafters.make("chain")) is drafters.chain.Chain


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("nowhere.py:Mine", ["nowhere.py", "No such file"]),
        ("nowhere.py", ["which class", "nowhere.py:MyDrafter"]),
        ("chian", ["unknown drafter 'chian'", "chain", "file.py:Class"]),
        ("Mine@00000000", ["unknown drafter"]),
    ],
)
def test_a_name_that_is_none_is_one_line(name: str, wanted: list[str], tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(grid_text(drafters=f'["{name}"]'))
    for arguments in (["plan", "smoke", "--drafter", name], ["plan", file], ["check-drafter", name]):
        ran = spotbench(*arguments)  # type: ignore[arg-type]
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), ran.err
        assert [part for part in wanted if part not in ran.err] == [], ran.err


def test_grid_files_and_options_come_to_the_same_cells_which_hold_no_path(tmp_path: Path) -> None:
    mine, file = written(tmp_path), tmp_path / "grid.toml"
    file.write_text(grid_text(drafters=f'["chain", "{mine}"]'))
    in_file = grid.read(str(file))
    file.write_text(grid_text(drafters='["chain"]'))
    added = grid.read(str(file), [mine, mine])
    assert added.cells() == in_file.cells()
    assert [cell for cell in added.cells() if "/" in f"{cell}{cell.id}"] == []
    (bundle,) = added.bundles()
    assert bundle.files == ((drafters.known(mine), mine),)
    assert grid.read(str(file)).bundles()[0].files == ()


def quiet(what: str, done: int, total: int) -> None:
    return


def test_another_process_finds_the_file_through_the_bundle_and_refuses_a_changed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, file = written(tmp_path), tmp_path / "grid.toml"
    file.write_text(grid_text(drafters=f'["{mine}"]', prompts="1"))
    (bundle,) = grid.read(str(file)).bundles()
    for folder, content, done in [("one", GOOD, True), ("two", GOOD + "# changed", False)]:
        monkeypatch.setattr(registry, "_FILES", {})  # as where the grid was not read
        written(tmp_path, content)
        store = store_of(tmp_path / folder)
        assert runner.run_bundle(bundle, store, False, quiet) == done
        assert [store.done(cell) for cell in bundle.cells] == [True, done]
    assert "has changed" in store.failed(bundle.cells[1])[0].line


def test_every_verb_of_a_grid_knows_an_added_drafter(tmp_path: Path) -> None:
    file, results, mine = tmp_path / "tiny.toml", tmp_path / "results", written(tmp_path)
    file.write_text(grid_text(drafters='["chain"]', prompts="1"))
    assert spotbench("run", file, "--results", results, "--drafter", mine).code == 0
    added = ["--results", results, "--drafter", mine]
    assert "3 cells in 1 bundles, 3 done" in spotbench("plan", file, *added).out
    assert spotbench("status", file, *added).out.splitlines()[1].split()[2:4] == ["3", "3"]
    assert "3 cells, 0 at fault" in spotbench("check", file, *added).out
    assert drafters.known(mine) in spotbench("report", file, *added).out
    assert drafters.known(mine) not in spotbench("report", file, "--results", results).out


# --- entry points --------------------------------------------------------------------------------


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make a package look installed, with a module of its own."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(package: str, content: str, name: str = "", version: str = "1.2") -> None:
        (tmp_path / f"{package}_code.py").write_text(content)
        info = tmp_path / f"{package}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{name or package} = {package}_code:Mine\n")

    return install


def test_a_plug_in_goes_by_its_name_and_version(install: Callable[..., None], tmp_path: Path) -> None:
    install("fancyone", GOOD)
    assert "fancyone@1.2" in drafters.names()
    assert drafters.make("fancyone").name == drafters.make("fancyone@1.2").name == "fancyone@1.2"
    file = tmp_path / "grid.toml"
    file.write_text(grid_text(drafters='["fancyone"]'))
    (_, cell) = grid.read(str(file)).cells()
    assert cell.drafter == "fancyone@1.2"
    assert "fancyone@1.2" in spotbench("list", "drafters").out


@pytest.mark.parametrize(
    ("package", "content", "wanted"),
    [
        ("brokenone", "raise OSError('half\\ninstalled')", "brokenone 1.2 cannot be loaded (OSError: half)"),
        ("exitone", "import sys; sys.exit()", "exitone 1.2 cannot be loaded (SystemExit"),
        ("emptyone", "", "emptyone 1.2 cannot be loaded (AttributeError"),
        ("wrongone", "Mine = 3", "wrongone 1.2: wrongone_code:Mine is not a Drafter"),
    ],
)
def test_a_broken_plug_in_is_a_line_that_names_its_package_and_stops_nothing(
    package: str, content: str, wanted: str, install: Callable[..., None]
) -> None:
    install(package, content)
    install("sound" + package, GOOD)
    listed = spotbench("list", "drafters")
    assert listed.code == 0
    (line,) = [line for line in listed.out.splitlines() if "fault" in line]
    assert wanted in line
    assert f"sound{package}@1.2" in listed.out
    assert spotbench("plan", "smoke", "--drafter", "sound" + package).code == 0
    asked = spotbench("plan", "smoke", "--drafter", package)
    assert (asked.code, len(asked.err.splitlines())) == (2, 1)
    assert wanted in asked.err


def test_a_plug_in_takes_no_name_from_another(install: Callable[..., None]) -> None:
    install("thief", GOOD, name="chain")
    install("twinone", GOOD, name="twin")
    install("twintwo", GOOD, name="twin")
    assert type(drafters.make("chain")) is drafters.chain.Chain
    assert "thief 1.2: the name is taken" in registry.plugins().broken["chain"]
    with pytest.raises(UserError, match="drafter 'twin' of twin(one|two) 1.2 and twin(one|two) 1.2: the name is taken"):
        drafters.make("twin")
