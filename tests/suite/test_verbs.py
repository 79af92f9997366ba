"""The verbs that read results: check, status, plan, list, doctor, report."""

import csv
import dataclasses
import importlib.util
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from suite import cli, grid
from suite.cells import Cell
from suite.records import Visit
from suite.store import Store
from suite.targets import catalog
from tests.suite.tiny_grid import TinyRun, divergence, finish, finish_grid, made_sample, spotbench, store_of


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
    assert "1 tie" in spotbench("report", file, "--results", results).out


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


def test_check_goes_on_after_a_damaged_cell(made: Made) -> None:
    file, results, store, cells = made
    finish_grid(store, cells, oracle=[made_sample(n, empty=True) for n in range(2)])
    path = store.root / cells[1].id / "samples.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    found = spotbench("check", file, "--results", results)
    assert found.code == 1
    assert [line.split()[0] for line in found.out.splitlines()] == ["damaged", "degenerate", "tiny:"]
    assert f"{path}: damaged or missing; remove the folder {cells[1].id} and run again" in found.out
    report = spotbench("report", file, "--results", results)
    assert (report.code, len(report.err.splitlines())) == (2, 1)
    assert str(path) in report.err


def test_check_finds_a_cell_that_lacks_prompts(made: Made) -> None:
    file, results, store, cells = made
    finish_grid(store, cells, chain=[made_sample(0)])
    found = spotbench("check", file, "--results", results)
    assert found.code == 1
    assert f"incomplete {cells[1].id}: 1 of 2 prompts" in found.out


def test_check_finds_cells_measured_on_other_weights(made: Made) -> None:
    file, results, store, cells = made
    finish_grid(store, cells[:2])
    settings = {"metric": "exact_match", "tiny": True, "weights": "w2"}
    finish(store, cells[2], [made_sample(n) for n in range(2)], settings=settings)
    found = spotbench("check", file, "--results", results)
    assert found.code == 1
    assert [line.split()[0] for line in found.out.splitlines()] == ["mixed", "tiny:"]
    assert "w1" in found.out
    assert "w2" in found.out


def test_check_does_not_believe_a_summary_against_its_samples(made: Made) -> None:
    """Answers that differ are lossy, also where no divergence was written."""
    file, results, store, cells = made
    finish_grid(store, cells, chain=[made_sample(0, exact_match=False), made_sample(1)])
    found = spotbench("check", file, "--results", results)
    assert found.code == 1
    assert [line.split()[0] for line in found.out.splitlines()] == ["lossy", "tiny:"]


def test_one_degenerate_answer_in_ten_is_no_fault(made: Made, write_grid: Callable[..., Path]) -> None:
    _, results, store, _ = made
    for bad, code in [(1, 0), (2, 1)]:
        file = write_grid(prompts="10", seeds=f"[{bad}]", drafters='["chain"]')
        good, cell = grid.read(str(file)).cells()
        finish(store, good, [made_sample(n) for n in range(10)])
        finish(store, cell, [made_sample(n, empty=n < bad) for n in range(10)])
        assert spotbench("check", file, "--results", results).code == code, bad


def test_messages_of_others_are_shown_as_they_are(made: Made) -> None:
    file, results, store, cells = made
    store.fail(cells[1], RuntimeError("[/red] of [bold]\nsecond line"), "Traceback")
    found = spotbench("check", file, "--results", results)
    assert "RuntimeError: [/red] of [bold] (1 attempt)" in found.out
    assert "second line" not in found.out


def test_plan_and_status_count(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    file, results, store, cells = made
    monkeypatch.setattr(cli.show, "width", 120)
    finish_grid(store, cells[:2])
    assert "3 cells in 1 bundles, 2 done" in spotbench("plan", file, "--results", results).out
    status = spotbench("status", file, "--results", results).out.splitlines()
    assert status[1].split()[2:] == ["3", "2", "-", "-", "-", "-", "1", "-"]
    assert status[2] == "2 of 3 cells are done"


def test_list_and_doctor_know_what_there_is() -> None:
    everything = spotbench("list").out
    for name in ("tiny-sdar-b16", "tiny-code", "best-first", "smoke"):
        assert name in everything
    assert "best-first" not in spotbench("list", "tasks").out
    assert spotbench("list", "cars").code == 2
    doctor = spotbench("doctor")
    assert (doctor.code, "fault" in doctor.out) == (0, False)
    for name in ("torch", "memory", "disk", "results", "sandbox", "tiny-sdar-b16"):
        assert name in doctor.out


def test_doctor_says_what_is_missing_instead_of_falling_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "transformers" else real(name))
    doctor = spotbench("doctor")
    assert doctor.code == 1
    assert [line for line in doctor.out.splitlines() if line.startswith("fault")] == [
        "fault transformers: missing; install spotbench again"
    ]


def test_doctor_says_where_a_checkpoint_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = dataclasses.replace(catalog.CATALOG["tiny-sdar-b16"], source="/nowhere/[at]/all")
    monkeypatch.setitem(catalog.CATALOG, "tiny-sdar-b16", spec)
    doctor = spotbench("doctor")
    assert doctor.code == 1
    assert "fault tiny-sdar-b16: no weights, under 1 GiB; install spotbench again" in doctor.out


def test_targets_that_this_machine_lacks_are_no_fault_and_come_with_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**18 * 24}[name])
    for verb in ("doctor", "list"):
        said = spotbench(verb).out
        assert "too big: 37 of 24 GiB CPU" in said
        assert "no weights, 8 GiB" in said
        assert "hf download JetLM/SDAR-8B-Chat-b32" in said
    assert spotbench("doctor").code == 0
    monkeypatch.setattr(cli.show, "width", 60)
    assert "…" not in spotbench("list", "targets").out, "a command that is cut off cannot be typed"
    assert "which six it took is not known to us" in spotbench("list", "targets").out


def test_the_counts_of_a_run_in_progress_are_shown(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    file, results, store, cells = made
    monkeypatch.setattr(cli.show, "width", 120)
    (bundle,) = grid.read(str(file)).bundles()
    for process, doc_id in [("p", 0), ("p", 1), ("q", 1)]:
        store.append(bundle, Visit(doc_id, {cells[0].id: made_sample(doc_id)}), process)
    store.fail(cells[2], ValueError("x"), "Traceback")
    out = spotbench("status", file, "--results", results).out
    row = dict(zip(*(line.split() for line in out.splitlines()[:2]), strict=True))
    assert row == {
        "target": "tiny-sdar-b16", "task": "tiny-gsm", "cells": "3", "done": "-", "running": "-", "pending": "-",
        "failed": "1", "lost": "-", "missing": "2", "begun": "2",
    }  # fmt: skip
    assert "T=1 exact seed 0: oracle r3\n  ValueError: x" in out


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
@pytest.mark.parametrize("drafter", ["chain", "best-first-uncoupled"])
def test_no_figure_is_cut_off_on_a_terminal(
    drafter: str, columns: int, made: Made, write_grid: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, results, store, _ = made
    file = write_grid(drafters=f'["{drafter}"]')
    finish_grid(store, grid.read(str(file)).cells())
    monkeypatch.setattr(cli.show, "width", columns)
    for verb in ("report", "plan", "status"):
        lines = spotbench(verb, file, "--results", results).out.splitlines()
        table = [line for line in lines if not line.startswith(("results:", "report:"))]
        assert "…" not in "".join(lines)
        assert max(len(line.rstrip()) for line in table) <= columns
    wide = spotbench("report", file, "--results", results).out
    assert wide.count("100.0%") == 2
    assert "2.00" in wide
    assert drafter[:12] in wide, "a name may fold, but not to a sliver"
    if columns >= 100:
        assert "2.00 [2.00, 2.00]" in wide, "pass reductions keep their interval"


def test_reading_results_needs_neither_torch_nor_transformers() -> None:
    program = (
        "import sys, reports.report, reports.leaderboard, suite.store, suite.check\n"
        "sys.exit(bool({'torch', 'transformers', 'lm_eval'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
