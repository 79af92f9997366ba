"""From a drafter in a file to a row of the leaderboard, and what is refused on the way."""

import csv
import io
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import drafters
from reports import entry, submissions
from reports.entry import DIGITS, Entry, Spread
from suite import cli
from suite.errors import UserError
from suite.targets import catalog
from tests.suite.tiny_grid import grid_text, spotbench, store_of

MINE = '''
from drafters import Drafter
from suite.decoding.state import fill, masked
class Mine(Drafter):
    """The last open position first."""
    def propose(self, view, rows):
        last = masked(view.state)[-1:]
        return [fill(view.state, last, [view.choice(view.committed).tokens[last[0]][0]])]
'''


@dataclass(frozen=True)
class Bench:
    """A replayed grid, its entries, and where all of it is."""

    home: Path
    file: Path
    drafter: str
    entries: dict[str, Entry]

    def path(self, name: str) -> Path:
        return self.home / "entries" / self.entries[name].file

    def validate(self, changed: dict[str, Any], drafter: str = "") -> str:
        """What is said of an entry; empty if it is valid."""
        path = self.home / "changed.json"
        path.write_text(json.dumps(changed))
        try:
            submissions.validate(entry.read(path), self.home / "traces", drafter, False, lambda *_: None)
        except UserError as error:
            return str(error)
        return ""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    home = tmp_path_factory.mktemp("bench")
    (home / "mine.py").write_text(MINE)
    drafter = f"{home / 'mine.py'}:Mine"
    file = home / "grid.toml"
    file.write_text(
        grid_text(drafters=json.dumps(["chain", "oracle", drafter]), temperatures="[0.0, 1.0]", rows="[2, 5]")
    )
    where = ("--results", home / "results", "--traces", home / "traces")
    assert spotbench("replay", file, *where).code == 0
    added = spotbench("leaderboard", "add", file, "--replayed", *where, "--entries", home / "entries")
    assert added.code == 0, added.err
    found = {one.drafter.split("@")[0]: one for one in entry.read_all(home / "entries")}
    return Bench(home, file, drafter, found)


def values(one: Entry) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(one.model_dump_json())
    return told


def test_every_drafter_of_a_grid_has_an_entry_that_is_whole(bench: Bench) -> None:
    assert set(bench.entries) == {"chain", "oracle", "Mine"}
    mine = bench.entries["Mine"]
    assert re.fullmatch(r"Mine@[0-9a-f]{8}", mine.drafter)
    assert mine.card.about == "The last open position first."
    assert [(result.task, result.temperature) for result in mine.results] == [("tiny-gsm", 0.0), ("tiny-gsm", 1.0)]
    assert [budget.rows for budget in mine.results[0].budgets] == [2, 5]
    assert list(entry.holes(mine)) == []
    assert mine.steps
    assert sum(len(block.lines) for block in mine.steps.blocks) == mine.results[0].budgets[1].passes[0]
    assert bench.entries["oracle"].card.kind == "bound"
    assert str(bench.home) not in bench.path("Mine").read_text(), "nobody's folders are published"


def test_the_page_and_the_report_say_the_same(bench: Bench) -> None:
    out = bench.home / "page.html"
    built = spotbench(
        "leaderboard", "build", "--entries", bench.home / "entries", "--out", out, "--results", bench.home / "results"
    )
    assert built.code == 0, built.err
    data = json.loads(re.search(r'id="data">(.*?)</script>', out.read_text(), re.S)[1])  # type: ignore[index]
    page = {}
    for line in data["rows"]:
        row = dict(zip(data["columns"], line, strict=True))
        of = data["entries"][row["entry"]]
        if not row["task"] and of["target"] == "tiny-sdar-b16" and of["prompts"] == 2:
            key = (of["drafter"], row["temperature"], row["rows"])
            page[key] = [row["passes"], row["reduction"], row["reduction_low"], row["reduction_high"]]
    assert spotbench("report", bench.file, "--replayed", "--results", bench.home / "results").code == 0
    text = (store_of(bench.home / "results").root / "report.csv").read_text()
    names = ("passes", "pass_reduction", "pass_reduction_low", "pass_reduction_high")
    paper = {
        (line["drafter"], float(line["temperature"]), int(line["rows"])): [float(line[name]) for name in names]
        for line in csv.DictReader(io.StringIO(text))
        if line["drafter"] != "none"
    }
    assert set(paper) <= set(page)
    for key, figures in paper.items():
        assert page[key] == pytest.approx(figures, rel=1e-12), key


def test_entries_made_here_are_valid(bench: Bench) -> None:
    assert bench.validate(values(bench.entries["chain"])) == ""
    said = spotbench(
        "leaderboard", "validate", bench.path("Mine"), "--drafter", bench.drafter, "--traces", bench.home / "traces"
    )
    assert said.code == 0, said.err
    assert "all but its times was measured again" in said.out


def test_missing_traces_are_recorded(bench: Bench, tmp_path: Path) -> None:
    submissions.validate(bench.entries["chain"], tmp_path / "traces", "", False, lambda *_: None)
    assert list((tmp_path / "traces").glob("*/trace.json"))


def forge(told: dict[str, Any]) -> None:
    """Fewer passes, and the figures that they make."""
    told["results"][0]["budgets"][0]["passes"][1] -= 1
    one = Entry.model_validate(told)
    made = list(Spread.of(one.reductions["tiny-gsm", 0.0, 2], DIGITS))
    told["results"][0]["budgets"][0]["pass_reduction"] = told["pooled"][0]["pass_reduction"] = made


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (forge, r"temperature=0.0\].budgets\[rows=2\].passes\[1\] is \d+ in the entry, and \d+ here$"),
        (lambda told: told["results"][1].update(trace="0" * 16), r"results\[tiny-gsm temperature=1.0\].trace is '0000"),
        (lambda told: told["results"][0].update(accuracy=0.123), r"temperature=0.0\].accuracy is 0.123"),
        (lambda told: told["results"][0].update(task_version="9"), r"task_version is '9' in the entry"),
        (lambda told: told.update(code="0" * 16), "stale: code is '0000"),
        (lambda told: told.update(weights="0" * 16), "stale: weights is '0000"),
        (lambda told: told["card"].update(kind="learned"), "stale: card is"),
        (lambda told: told["settings"].update(prompts=100), "incomplete: tiny-gsm T=0: 2 of 100 prompts"),
        (lambda told: told["settings"].update(seed=1), "trace is"),
        (lambda told: told.update(drafter="nobody"), "unknown drafter 'nobody'"),
    ],
)  # fmt: skip
def test_what_is_forged_stale_or_incomplete_is_refused_by_the_field(
    bench: Bench, change: Callable[[dict[str, Any]], Any], said: str
) -> None:
    told = values(bench.entries["chain"])
    change(told)
    refused = bench.validate(told)
    assert re.search(said, refused), refused
    assert "\n" not in refused


def test_a_hole_is_refused(bench: Bench) -> None:
    told = values(bench.entries["chain"])
    del told["results"][1]["budgets"][1]
    del told["pooled"][3]
    assert bench.validate(told) == "incomplete: tiny-gsm T=1 5 rows is missing"


def test_a_changed_file_is_another_drafter(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE.replace("-1:", ":1"))
    refused = bench.validate(values(bench.entries["Mine"]), f"{tmp_path / 'mine.py'}:Mine")
    assert refused.startswith("stale: ")
    assert spotbench("leaderboard", "validate", bench.path("Mine")).code == 0, "this process knows the file"


def test_the_code_hash_is_of_what_a_drafter_imports() -> None:
    def of(name: str) -> str:
        return submissions.code_hash(drafters.make(name))

    assert of("chain") == of("chain-uncoupled")
    assert len({of("chain"), of("best-first"), of("spiffy"), of("spot"), of("spot-sets")}) == 5
    followed = {*submissions._imports(Path(drafters.spot.__file__).read_text())}
    assert {"drafters.base", "drafters.search", "suite.decoding.state"} <= followed


def test_an_unfinished_grid_makes_entries_that_say_so(bench: Bench, tmp_path: Path) -> None:
    shutil.copytree(bench.home / "results", tmp_path / "results")
    (lost,) = list(store_of(tmp_path / "results").root.glob("*.t1.exact.chain.r5.*"))
    shutil.rmtree(lost)
    args = ("--replayed", "--traces", bench.home / "traces", "--entries", tmp_path / "entries", "--results")
    added = spotbench("leaderboard", "add", bench.file, *args, tmp_path / "results")
    assert added.code == 0, added.err
    assert "chain.json: tiny-gsm T=1 5 rows is missing; it will not be ranked" in added.out
    nothing = spotbench("leaderboard", "add", bench.file, *args, tmp_path / "none")
    assert nothing.code == 2
    assert "nothing is finished" in nothing.err


def test_compare_places_a_drafter_among_the_others(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli.show, "width", 120)
    (tmp_path / "mine.py").write_text(MINE)
    compared = spotbench(
        "compare", "--drafter", "mine.py:Mine", "--task", "tiny-gsm", "--prompts", "2", "--temperature", "1",
        "--rows", "5", "--traces", bench.home / "traces", "--entry", "mine.json",
    )  # fmt: skip
    assert compared.code == 0, compared.err
    lines = [line.split() for line in compared.out.splitlines() if line.split()]
    name = bench.entries["Mine"].drafter
    (own,) = [line for line in lines if line[:2] == [name, "5"]]
    against = {line[0]: line for line in lines if line[-1:] == ["tiny-gsm"]}
    assert {"chain", "best-first", "spiffy", "spot"} <= set(against)
    assert not {"oracle", "perfect", "none", name} & set(against)
    made = entry.read(Path("mine.json"))
    assert (made.drafter, [x.rows for x in made.pooled], made.temperatures) == (name, [5], [1.0])
    reduction = made.pooled[0].pass_reduction
    assert f"{reduction.value:.2f}" in own
    theirs = bench.entries["chain"].at(1.0, 5)[0][1].passes
    ratio = (
        theirs[0] * theirs[1] / (made.results[0].budgets[0].passes[0] * made.results[0].budgets[0].passes[1])
    ) ** 0.5
    assert against["chain"][2] == f"{ratio:.3f}", "paired, prompt by prompt"


def test_compare_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    real = next(name for name, spec in catalog.CATALOG.items() if not spec.tiny)
    assert "no tiny target: say on which --task" in spotbench("compare", "--drafter", "chain", "--target", real).err
    assert spotbench("compare", "--drafter", "nobody").code == 2
    assert "rows" in spotbench("compare", "--drafter", "chain", "--rows", "0").err
