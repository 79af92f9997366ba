"""The verbs that read results: check, status, plan, list, doctor, report."""

import csv
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from suite import grid
from suite.cells import Cell
from suite.store import Store
from tests.suite.tiny_grid import TinyRun, divergence, finish_grid, made_sample, spotbench, store_of


@pytest.fixture
def made(tmp_path: Path, write_grid: Callable[..., Path]) -> tuple[Path, Path, Store, list[Cell]]:
    """A grid file, a results folder, its store and the grid's cells; nothing is done yet."""
    file = write_grid()
    return file, tmp_path / "results", store_of(tmp_path / "results"), grid.read(str(file)).cells()


Made = tuple[Path, Path, Store, list[Cell]]


def test_check_passes_what_is_whole_and_lossless(made: Made) -> None:
    file, results, store, cells = made
    finish_grid(store, cells)
    assert spotbench("check", file, "--results", results).code == 0


def test_check_passes_numeric_ties(made: Made) -> None:
    file, results, store, cells = made
    tie = made_sample(0, exact_match=False, divergence=divergence(tie=True))
    finish_grid(store, cells, chain=[tie, made_sample(1)])
    assert spotbench("check", file, "--results", results).code == 0
    assert "1 ties" in spotbench("report", file, "--results", results).out


@pytest.mark.parametrize(
    ("sample", "kind"),
    [
        (made_sample(0, exact_match=False, divergence=divergence(tie=False)), "lossy"),
        (made_sample(0, text="", empty=True), "degenerate"),
        (made_sample(0, repetitive=True, finish="length"), "degenerate"),
    ],
)
def test_check_fails_and_names_the_kind(made: Made, sample: object, kind: str) -> None:
    file, results, store, cells = made
    finish_grid(store, cells, chain=[sample, made_sample(1)])  # type: ignore[list-item]
    found = spotbench("check", file, "--results", results)
    assert found.code == 1
    assert [line.split()[0] for line in found.out.splitlines()] == [kind, "tiny:"]
    assert ".chain." in found.out


def test_check_and_report_say_what_is_missing(made: Made) -> None:
    file, results, store, cells = made
    finish_grid(store, cells[:-1])
    found = spotbench("check", file, "--results", results)
    assert (found.code, found.out.count("incomplete")) == (1, 1)
    assert cells[-1].id in found.out
    report = spotbench("report", file, "--results", results)
    assert report.code == 0
    assert "1 of 3 cells are not done" in report.out
    assert "1 of 3 cells are not done" in (store.root / "report.md").read_text()


def test_check_names_a_failure(made: Made) -> None:
    file, results, store, cells = made
    store.fail(cells[1], RuntimeError("the drafter fell over"), "Traceback")
    found = spotbench("check", file, "--results", results)
    assert found.code == 1
    assert "RuntimeError: the drafter fell over (1 attempt)" in found.out


def test_plan_and_status_count(made: Made) -> None:
    file, results, store, cells = made
    finish_grid(store, cells[:2])
    assert "3 cells in 1 bundles, 2 done" in spotbench("plan", file, "--results", results).out
    assert spotbench("status", file, "--results", results).out.splitlines()[1].split()[-5:] == ["3", "2", "0", "1", "0"]


def test_list_and_doctor_know_what_there_is() -> None:
    everything = spotbench("list").out
    for name in ("tiny-sdar-b16", "tiny-code", "best-first", "smoke"):
        assert name in everything
    assert "best-first" not in spotbench("list", "tasks").out
    assert spotbench("list", "cars").code == 2
    assert spotbench("doctor").code == 0


def test_the_baseline_is_its_own_measure(tiny_run: TinyRun) -> None:
    out = spotbench("report", tiny_run.file, "--results", tiny_run.results).out
    (line,) = [line for line in out.splitlines() if line.split()[:1] == ["none"]]
    assert "1.00 [1.00, 1.00]" in line
    assert "100.0%" in line


def test_markdown_and_csv_and_terminal_agree(tiny_run: TinyRun) -> None:
    out = spotbench("report", tiny_run.file, "--results", tiny_run.results).out
    text = (tiny_run.store.root / "report.md").read_text()
    rows = list(csv.DictReader(io.StringIO((tiny_run.store.root / "report.csv").read_text())))
    assert [row["drafter"] for row in rows] == ["none", "chain", "oracle"]
    for row in rows:
        low, high = float(row["pass_reduction_low"]), float(row["pass_reduction_high"])
        shown = f"{float(row['pass_reduction']):.2f} [{low:.2f}, {high:.2f}]"
        assert f"| {row['drafter']} | {row['rows']} | {float(row['passes']):.1f} | {shown} |" in text
        (line,) = [line for line in out.splitlines() if line.split()[:1] == [row["drafter"]]]
        assert shown in line


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_no_figure_is_cut_off_on_a_terminal(tiny_run: TinyRun, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from suite import cli

    monkeypatch.setattr(cli.show, "width", columns)
    out = spotbench("report", tiny_run.file, "--results", tiny_run.results).out
    assert "…" not in out
    assert "100.0%" in out


def test_reading_results_needs_neither_torch_nor_transformers() -> None:
    program = (
        "import sys, reports.report, suite.store, suite.check\n"
        "sys.exit(bool({'torch', 'transformers', 'lm_eval'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
