"""The paper's tables: the report's figures, the best marked, and LaTeX that sets whatever names hold."""

import csv
import io
import math
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports import figures, frame, paper, pooled, report, typeset
from reports.pooled import Part
from reports.typeset import Entry, Group, PaperTable, Row
from suite.cells import Cell
from suite.measure.stats import Interval
from suite.records import Sample
from suite.store import Store
from tests.suite.tiny_grid import divergence, finish, made_cell, made_manifest, made_sample

ROWS = (3, 9)
HOSTILE = [
    "a_b&c%d$e#f",
    r"\input{x}\end{tabular}",
    "{~^}",
    "[red]",
    "* x",
    "| a | b |",
    "a--b",
    "长…é\n\x07",
    "'`\"<>",
]


def sample(n: int, drafter: str, rows: int) -> Sample:
    """A drafter of one letter more needs a pass less."""
    passes = 1 if drafter == "oracle" else max(1, 16 - len(drafter) - rows)
    if drafter == "none":
        return made_sample(n, verify_passes=20 + n, baseline_passes=20 + n, depths=[0] * 20, rows=20 + n)
    return made_sample(n, verify_passes=passes, baseline_passes=20 + n, depths=[1] * passes, rows=2 * passes)


def grid(store: Store, drafters: tuple[str, ...] = ("spot", "spot-sets", "oracle"), **changes: str) -> list[Cell]:
    cells = [made_cell("none", **changes)]
    cells += [made_cell(drafter, rows=rows, **changes) for drafter in drafters for rows in ROWS]
    for cell in cells:
        finish(store, cell, [sample(n, cell.drafter, cell.rows) for n in range(4)])
    return cells


def parts(store: Store, cells: list[Cell]) -> list[Part]:
    return list(pooled.parts(frame.build(store, cells), frame.missing(store, cells)))


def table(made: list[Part], name: str) -> PaperTable:
    return next(one for one in paper.tables(made) if one.name.startswith(name))


def entries(one: PaperTable, drafter: str, group: int = 0) -> tuple[Entry, ...]:
    return next(row.entries for row in one.groups[group].rows if row.labels[0] == drafter)


def test_page_and_paper_hold_the_same_figures(tmp_path: Path) -> None:
    """Every figure of the paper's main table is in the report's CSV, and as it shows it in the index page."""
    store = Store(tmp_path / "machine" / "grid")
    cells = grid(store)
    report.write("mine", "", store, cells)
    page = (store.root / "index.html").read_text()
    told = {
        (row["drafter"], row["rows"]): row
        for row in csv.DictReader(io.StringIO((store.root / "report.csv").read_text()))
    }
    (file,) = (store.root / "paper").glob("passes-*.csv")
    names = {"pass reduction": "pass_reduction", "tokens/s": "tokens_per_s"}
    seen = 0
    for row in csv.DictReader(io.StringIO(file.read_text())):
        of = told[row["drafter"], row["column"]]
        assert float(row["value"]) == float(of[names[row["of"]]])
        if row["of"] == "pass reduction":
            assert (float(row["low"]), float(row["high"])) == (
                float(of["pass_reduction_low"]),
                float(of["pass_reduction_high"]),
            )
            assert f"<td>{float(row['value']):.2f} [{float(row['low']):.2f}, {float(row['high']):.2f}]</td>" in page
        seen += 1
    assert seen == 2 * 3 * len(ROWS)


def test_latex_markdown_and_csv_hold_the_same_figures(tmp_path: Path) -> None:
    one = table(parts(Store(tmp_path), grid(Store(tmp_path))), "passes")
    shown = [x.text for group in one.groups for row in group.rows for x in row.entries]
    in_markdown = [
        cell.strip(" *") for line in typeset.markdown(one).splitlines() if line.startswith("| ")
        for cell in line.strip("|").split("|")[1:]
    ]  # fmt: skip
    assert [cell for cell in in_markdown if cell[0].isdigit() and "rows" not in cell and "pass" not in cell] == shown
    assert len(list(csv.DictReader(io.StringIO(typeset.csv(one))))) == len(shown)
    for text in shown:
        assert text in typeset.latex(one)


def interval(value: float, spread: float) -> Entry:
    return Entry(f"{value}", value, value - spread, value + spread)


def test_the_best_is_marked_and_all_whose_intervals_overlap_with_its_own() -> None:
    rows = [
        Row(("far",), (interval(1.2, 0.1),)),
        Row(("near",), (interval(1.9, 0.1),)),
        Row(("best",), (interval(2.0, 0.1),)),
        Row(("bound",), (interval(9.0, 0.1),), aside=True),
        Row(("unmeasured",), (typeset.NOT_MEASURED,)),
    ]
    assert [row.entries[0].best for row in typeset.contest(rows, [0])] == [False, True, True, False, False]


def test_nothing_that_is_worse_than_no_drafts_is_marked() -> None:
    slow = [Row((name,), (replace(interval(50, 9), by=Interval(x, x, x)),)) for name, x in (("a", 0.8), ("b", 0.9))]
    assert not any(row.entries[0].best for row in typeset.contest(slow, [0]))


def test_what_is_not_done_is_missing_and_what_cannot_be_is_not_measured(tmp_path: Path) -> None:
    store = Store(tmp_path)
    cells = [*grid(store), made_cell("chain", rows=3), made_cell("none", task="tiny-math")]
    made = parts(store, cells)
    assert [x.state for x in entries(table(made, "passes"), "chain")] == ["missing"] * 4
    assert [x.text for x in entries(table(made, "accuracy"), "spot")] == ["1.00", "missing", "missing", "missing"]
    assert [one.name for one in figures.draw(made)] == [], "no curve of what lacks a task"
    assert [x.text for x in entries(table(made, "cost"), "spot")][:2] == ["missing"] * 2, "it lacks a task"
    cell = made_cell("none", task="speed")
    store.finish(
        cell, made_manifest(cell, settings={"metric": "", "tiny": True, "weights": "w"}), [made_sample()], [], ""
    )
    assert not [one for one in paper.tables(parts(store, [cell])) if one.name == "accuracy"]


def test_sets_are_compared_with_the_threshold_alone_and_exact_stands_beside(tmp_path: Path) -> None:
    store = Store(tmp_path)
    cells = grid(store, rule="threshold(0.9)")
    exact = made_cell("none")
    finish(store, exact, [made_sample(n, scores={"exact_match": float(n % 2)}) for n in range(4)])
    one = table(parts(store, [*cells, exact]), "sets")
    assert [x.text for x in entries(one, "spot-sets")[-2:]] == ["1.00", "0.50"]
    assert entries(one, "spot-sets")[0].value == pytest.approx(2.0), "0.75 s where the threshold alone took 1.5 s"


def test_home_and_parameters_are_those_of_the_network_that_ships(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = parts(store, grid(store) + grid(store, target="tiny-llada"))
    rows = {row.labels[0]: row.labels[1] for row in table(made, "transfer").groups[0].rows}
    assert rows["spot"] == "tiny-sdar-b16"
    assert rows["oracle"] == "-"
    assert entries(table(made, "transfer"), "spot")[0].value == entries(table(made, "passes"), "spot")[1].value
    assert {row.labels[0]: row.labels[1] for row in table(made, "cost").groups[0].rows}["spot"] == "0.61 M"


def test_ties_and_bugs_are_counted_and_replays_are_no_evidence(tmp_path: Path) -> None:
    store = Store(tmp_path)
    faults = [divergence(tie=True), divergence(tie=False), None, None]
    cell = made_cell("spot")
    finish(store, cell, [made_sample(n, divergence=x, exact_match=not x) for n, x in enumerate(faults)])
    shown = table(parts(store, [cell]), "lossless").groups[0].rows[0].entries
    assert [x.text for x in shown] == ["1", "4", "50.00 %", "1", "1"]
    replayed = made_cell("spot", device="replay")
    settings = {"metric": "exact_match", "tiny": True, "weights": "w1", "replayed": True}
    finish(store, replayed, [made_sample()], settings=settings)
    shown = table(parts(store, [replayed]), "lossless").groups[0].rows[0].entries
    assert {x.state for x in shown[1:]} == {"not measured"}


def test_look_alikes_are_called_that_in_every_caption(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = parts(store, grid(store) + grid(store, target="tiny-llada") + grid(store, rule="threshold(0.9)"))
    found = list(paper.tables(made))
    assert {one.name.split("-")[0] for one in found} == {"passes", "accuracy", "transfer", "sets", "cost", "lossless"}
    for one in found:
        assert "look-alikes" in one.caption


def test_a_long_table_goes_on_on_the_next_page() -> None:
    groups = tuple(Group(f"g{n}", tuple(Row((f"r{n}.{k}",), (Entry("1", 1.0),)) for k in range(40))) for n in range(4))
    text = typeset.latex(PaperTable("long", "Long. More.", ("drafter",), (("", "x"),), groups))
    assert text.count(r"\begin{table*}") == 4
    assert text.count("Long, continued.") == 3
    assert text.count(r"\label") == 1
    assert all(f"r{n}.{k} &" in text for n in range(4) for k in range(40))


@given(st.text())
def test_any_text_is_ascii_latex_with_balanced_braces(text: str) -> None:
    made = typeset.escape(text)
    assert made.isascii() and made.isprintable()
    bare = made.replace(r"\{", "").replace(r"\}", "")
    assert bare.count("{") == bare.count("}")


def test_pdflatex_sets_the_document_whatever_names_hold(tmp_path: Path) -> None:
    if not shutil.which("pdflatex"):
        pytest.skip("pdflatex is not installed")
    store = Store(tmp_path / "machine" / "grid")
    cells = grid(store) + grid(store, target="tiny-llada") + grid(store, rule="threshold(0.9)")
    report.write(HOSTILE[0], "", store, cells)
    folder = store.root / "paper"
    hostile = tuple(Row((name,), (Entry(name, math.nan), typeset.NOT_MEASURED)) for name in HOSTILE)
    made = PaperTable("hostile", " ".join(HOSTILE), ("*",), (("[x]", "a"), ("[x]", "b")), (Group(HOSTILE[1], hostile),))
    (folder / "hostile.tex").write_text(typeset.latex(made))
    text = (folder / "paper.tex").read_text().replace(r"\clearpage", "\\input{hostile}\n\\clearpage")
    (folder / "paper.tex").write_text(text)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
