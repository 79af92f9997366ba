"""The tables: pooled as they say, the same figures in every form, and safe against what names may hold."""

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from reports import frame, pooled, report, tables
from reports.pooled import Line, Part
from suite.cells import Cell
from suite.store import Store
from tests.suite.tiny_grid import divergence, finish, made_cell, made_manifest, made_sample


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def parts_of(store: Store, cells: list[Cell]) -> list[Part]:
    return list(pooled.parts(frame.build(store, cells)))


def lines_of(store: Store, cells: list[Cell]) -> dict[str, Line]:
    (part,) = parts_of(store, cells)
    return {line.drafter: line for line in part.lines}


def plain(n: int, passes: int, **changes: Any) -> Any:
    """A baseline's sample."""
    return made_sample(
        n, verify_passes=passes, baseline_passes=passes, depths=[0] * passes, rows=passes, baseline_s=0.75, **changes
    )


def drafted(n: int, before: int, passes: int, **changes: Any) -> Any:
    return made_sample(n, verify_passes=passes, baseline_passes=before, depths=[1] * passes, **changes)


def test_the_baseline_has_a_pass_reduction_and_a_speed_up_of_exactly_one(store: Store) -> None:
    finish(store, made_cell("none"), [plain(n, passes) for n, passes in enumerate([7, 31, 90])])
    line = lines_of(store, [made_cell("none")])["none"]
    for figure in (line.reduction, line.speedup):
        assert (figure.value, figure.low, figure.high) == (1.0, 1.0, 1.0)
    assert line.pooled_reduction == 1.0
    assert line.exact_match == 1.0


def test_tasks_are_pooled_prompt_by_prompt(store: Store) -> None:
    """Three prompts of one task and one of another: every prompt counts the same."""
    gsm, math = made_cell("chain"), made_cell("chain", task="tiny-math")
    finish(store, gsm, [drafted(n, 8, 2) for n in range(3)])
    finish(store, math, [drafted(0, 4, 4, scores={"exact_match": 0.0})])
    line = lines_of(store, [gsm, math])["chain"]
    assert line.prompts == 4
    assert line.reduction.value == pytest.approx((4 * 4 * 4 * 1) ** (1 / 4))
    assert line.pooled_reduction == pytest.approx((8 * 3 + 4) / (2 * 3 + 4))
    assert line.accuracy.value == pytest.approx(3 / 4)
    assert line.passes == pytest.approx((2 * 3 + 4) / 4)
    assert line.tokens_per_s == pytest.approx(16 / (4 * 0.75))
    assert line.speedup.value == pytest.approx(2.0)
    assert line.reduction.low <= line.reduction.value <= line.reduction.high


def test_shares_of_the_time_add_up(store: Store) -> None:
    finish(store, made_cell(), [drafted(n, 8, 2) for n in range(2)])
    line = lines_of(store, [made_cell()])["chain"]
    assert line.draft_share + line.verify_share + line.host_share == pytest.approx(1.0)


def test_temperatures_rules_and_targets_are_never_pooled(store: Store) -> None:
    cells = [
        made_cell("none", temperature=temperature, rule=rule)
        for temperature in (0.0, 1.0)
        for rule in ("exact", "threshold(0.9)")
    ]
    for n, cell in enumerate(cells):
        finish(store, cell, [plain(0, 10 + n)])
    made = parts_of(store, cells)
    assert [part.lines[0].passes for part in made] == [10, 11, 12, 13]
    assert len({part.setting.title for part in made}) == 4


def test_the_lines_are_in_the_order_of_the_grid(store: Store) -> None:
    cells = [made_cell("none"), *(made_cell(name, rows=rows) for name in ("zeta", "alpha") for rows in (9, 3))]
    for cell in cells:
        finish(store, cell, [plain(0, 10)])
    (part,) = parts_of(store, cells)
    assert [(line.drafter, line.rows) for line in part.lines] == [(cell.drafter, cell.rows) for cell in cells]


def test_ties_and_bugs_are_told_apart_wherever_they_are_shown(store: Store) -> None:
    samples = [
        drafted(0, 8, 2, exact_match=False, divergence=divergence(tie=True)),
        drafted(1, 8, 2, exact_match=False, divergence=divergence(tie=False)),
        drafted(2, 8, 2, exact_match=False, divergence=divergence(tie=False)),
        drafted(3, 8, 2),
        drafted(4, 8, 2),
    ]
    finish(store, made_cell(), samples)
    line = lines_of(store, [made_cell()])["chain"]
    assert (line.exact_match, line.ties, line.bugs) == (0.4, 1, 2)
    path, _ = report.write("tiny", "", store, [made_cell()])
    assert "40.0%, 1 tie, 2 BUGS" in path.read_text()


def test_markdown_and_csv_hold_the_same_figures(store: Store) -> None:
    cells = [made_cell("none"), made_cell("chain"), made_cell("oracle", rows=9)]
    for n, cell in enumerate(cells):
        finish(store, cell, [drafted(k, 12 + k, 12 + k - n) for k in range(5)])
    path, (part,) = report.write("tiny", "about it", store, cells)
    rows = list(csv.DictReader(io.StringIO((store.root / "report.csv").read_text())))
    table = [line.strip("| ").split(" | ") for line in markdown_tables(path.read_text())[0][2:]]
    assert len(rows) == len(table) == len(part.lines) == 3
    for row, shown in zip(rows, table, strict=True):
        values = {key: float(value or "nan") for key, value in row.items() if key not in TEXT}
        assert shown == [
            row["drafter"],
            row["rows"],
            f"{values['passes']:.1f}",
            f"{values['pass_reduction']:.2f} [{values['pass_reduction_low']:.2f}, {values['pass_reduction_high']:.2f}]",
            f"{values['tokens_per_s']:.0f}",
            f"{values['speedup']:.2f} [{values['speedup_low']:.2f}, {values['speedup_high']:.2f}]",
            f"{values['accuracy']:.2f}",
            f"{values['exact_match']:.1%}",
        ]


TEXT = ("target", "context", "rule", "drafter", "without")
HOSTILE = ["a|b", "a\nb", "| x |\n|---|", "[red]", "[/red]", "`code`", "<b>", "a\\|b", "…", "长" * 5]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_cannot_break_a_table(name: str, store: Store) -> None:
    """Names are checked where they come in; this is the second fence."""
    cell = replace(made_cell(), drafter=name, task=name)
    base = replace(made_cell("none"), task=name)
    finish(store, base, [plain(0, 10)])
    finish(store, cell, [drafted(0, 10, 5)])
    path, (part,) = report.write("tiny", "", store, [base, cell])
    for table in markdown_tables(path.read_text()):
        assert len({cells_in(line) for line in table}) == 1, table
    assert [len(table) for table in markdown_tables(path.read_text())] == [4, 3, 3]
    screen = io.StringIO()
    Console(file=screen, width=100).print(tables.terminal(part.setting.title, tables.METHODS, part.lines, 100))
    if "\n" not in name:
        assert name in screen.getvalue()
    assert list(csv.DictReader(io.StringIO((store.root / "report.csv").read_text())))[1]["drafter"] == name


def test_an_incomplete_grid_says_so_and_shows_what_there_is(store: Store) -> None:
    cells = [made_cell("none"), made_cell("chain")]
    finish(store, cells[0], [plain(0, 10)])
    path, (part,) = report.write("tiny", "", store, cells)
    assert "1 of 2 cells are not done" in path.read_text()
    assert [line.drafter for line in part.lines] == ["none"]
    finish(store, cells[1], [drafted(0, 10, 5)])
    assert "not done" not in report.write("tiny", "", store, cells)[0].read_text()


def test_a_grid_of_nothing_yet_has_an_empty_report(store: Store) -> None:
    path, made = report.write("tiny", "", store, [made_cell("none")])
    assert made == []
    assert "1 of 1 cells are not done" in path.read_text()
    assert list(csv.DictReader(io.StringIO((store.root / "report.csv").read_text()))) == []


def test_drafted_cells_without_their_baseline_can_be_shown(store: Store) -> None:
    finish(store, made_cell(), [drafted(0, 10, 5)])
    _, (part,) = report.write("tiny", "", store, [made_cell("none"), made_cell()])
    assert (len(part.lines), part.baselines) == (1, [])


@pytest.mark.filterwarnings("error")
def test_what_was_not_counted_is_not_shown_as_a_figure(store: Store) -> None:
    """Samples without stale counts: of an older run, or of blocks that were filled in one step."""
    finish(store, made_cell("none"), [plain(0, 10, stale=None)])
    path, _ = report.write("tiny", "", store, [made_cell("none")])
    assert "nan" not in path.read_text()


def test_a_look_alike_is_called_one_wherever_it_is_shown(store: Store) -> None:
    finish(store, made_cell("none"), [plain(0, 10)])
    path, (part,) = report.write("tiny", "", store, [made_cell("none")])
    assert "look-alike" in part.setting.title
    assert part.setting.place in path.read_text()


def test_the_report_is_the_same_whenever_it_is_made(store: Store) -> None:
    finish(store, made_cell("none"), [plain(n, 10 + n) for n in range(3)])
    first = report.write("tiny", "", store, [made_cell("none")])[0].read_bytes()
    assert report.write("tiny", "", store, [made_cell("none")])[0].read_bytes() == first


def markdown_tables(text: str) -> list[list[str]]:
    """The lines of every table: those that begin with a bar, block by block."""
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


def cells_in(line: str) -> int:
    """As Markdown counts them: a bar after a backslash is text."""
    return line.replace("\\\\", "").replace("\\|", "").count("|") - 1


def test_accuracy_is_of_the_tasks_that_have_a_score(store: Store) -> None:
    scored, speed = made_cell("chain"), made_cell("chain", task="speed")
    settings = {"metric": "", "tiny": True, "weights": "w1"}
    finish(store, scored, [drafted(n, 8, 2, scores={"exact_match": float(n)}) for n in range(2)])
    store.finish(
        speed, made_manifest(speed, settings=settings), [drafted(n, 4, 4, scores={}) for n in range(6)], [], ""
    )
    line = lines_of(store, [scored, speed])["chain"]
    assert (line.prompts, line.accuracy.value) == (8, 0.5)
    assert "| - | 100.0% |" in tables.markdown(tables.METHODS, [lines_of(store, [speed])["chain"]])


def test_rules_without_drafts_are_lines_of_one_table_for_each_target(store: Store) -> None:
    cells = [
        made_cell("none", target=target, rule=rule, temperature=temperature)
        for target in ("tiny-sdar-b16", "tiny-llada")
        for rule in ("exact", "fixed(2)", "threshold(0.9)")
        for temperature in (0.0, 1.0)
    ]
    for n, cell in enumerate(cells):
        finish(store, cell, [plain(0, 10 + n)])
    path, made = report.write("rules", "", store, cells)
    sections = list(tables.sections(made))
    assert [(one.plain, len(one.rows)) for one in sections] == [(True, 6), (True, 6)]
    assert [len(table) for table in markdown_tables(path.read_text())] == [8, 8, 8, 8]
    shown = "".join(column.show(sections[0].rows[1]) + " " for column in sections[0].columns[:3])
    assert shown == "1 exact 11.0 "


def test_the_page_has_all_that_lies_beside_it_and_names_stay_text(store: Store) -> None:
    cells = [
        made_cell("none"),
        *(replace(made_cell(), drafter="<script>alert(1)</script>", rows=rows) for rows in (3, 9)),
    ]
    for n, cell in enumerate(cells):
        finish(store, cell, [drafted(k, 12 + k, 12 + k - n) for k in range(3)])
    store.write_report("figures/of-an-earlier-grid.png", b"")
    report.write("<b>mine</b>", "about & it", store, cells)
    assert not (store.root / "figures" / "of-an-earlier-grid.png").exists()
    page = (store.root / "index.html").read_text()
    assert "<script" not in page and "<b>mine" not in page and "about &amp; it" in page
    links = set(re.findall(r"(?:href|src)=([^ >]+)", page))
    assert {"report.md", "report.csv", "claims.md", "paper/paper.tex", "figures/reduction-exact.png"} < links
    assert {link for link in links if not (store.root / link).exists()} == set()
    assert "look-alike" in page


def test_results_of_two_versions_of_the_code_say_so(store: Store) -> None:
    cells = [made_cell("none"), made_cell("chain")]
    finish(store, cells[0], [plain(0, 10)])
    finish(store, cells[1], [drafted(0, 10, 5)], code="c2")
    assert "2 versions of the code" in report.write("tiny", "", store, cells)[0].read_text()
    assert "2 versions of the code" in (store.root / "index.html").read_text()
