"""The figures: the tables' values, the same bytes every time."""

from dataclasses import replace
from pathlib import Path

import pytest

from reports import figures, frame, pooled
from reports.pooled import Part
from suite.cells import Cell
from suite.records import Stale
from suite.store import Store
from tests.suite.tiny_grid import finish, made_cell, made_sample

ROWS = (3, 5, 9)


def parts(folder: Path, targets: tuple[str, ...] = ("tiny-sdar-b16",)) -> list[Part]:
    store, cells = Store(folder), list[Cell]()
    for target in targets:
        baseline = made_cell("none", target=target)
        stale = Stale(commits=10, tokens=9, steps=10, choices=7)
        finish(store, baseline, [made_sample(n, depths=[0] * 4, verify_passes=4, stale=stale) for n in range(2)])
        cells.append(baseline)
        for drafter in ("mine@1", "chain", "chain-uncoupled", "oracle"):
            for rows in ROWS:
                cell = made_cell(drafter, target=target, rows=rows)
                finish(store, cell, [made_sample(n, baseline_passes=rows + n) for n in range(2)])
                cells.append(cell)
    return list(pooled.parts(frame.build(store, cells)))


def test_a_curve_is_the_tables_column(tmp_path: Path) -> None:
    (part,) = parts(tmp_path)
    drawn = figures.reduction(part)
    assert drawn is not None
    curves = {line.get_label(): line for line in drawn.axes[0].lines}
    assert list(curves) == ["chain", "oracle", "mine@1"], "no baseline, no uncoupled twin"
    for name, curve in curves.items():
        wanted = {line.rows: line.reduction.value for line in part.lines if line.drafter == name}
        assert dict(zip(curve.get_xdata(), curve.get_ydata(), strict=True)) == pytest.approx(wanted)


def test_the_same_tables_give_the_same_bytes(tmp_path: Path) -> None:
    made = parts(tmp_path / "store", ("tiny-sdar-b16", "tiny-llada"))
    drawn = dict(figures.render(made))
    assert dict(figures.render(made)) == drawn
    assert {"transfer.pdf", "transfer.png"} < drawn.keys()
    assert all(content.startswith((b"%PDF", b"\x89PNG")) for content in drawn.values())


def test_a_look_alike_is_called_one_in_its_figures(tmp_path: Path) -> None:
    (part,) = parts(tmp_path)
    drawn = figures.reduction(part)
    assert drawn is not None and "look-alike" in drawn.axes[0].get_title()


def test_targets_are_compared_where_there_are_two(tmp_path: Path) -> None:
    assert figures.transfer(parts(tmp_path / "one")) is None
    drawn = figures.transfer(parts(tmp_path / "two", ("tiny-sdar-b16", "tiny-llada")))
    assert drawn is not None
    texts = [text.get_text() for text in drawn.axes[0].texts]
    assert texts == ["4.75 (100%)"] * 6, "9 and 10 passes instead of 2 and 2, for three drafters on two targets"


def test_rules_are_never_drawn_over_each_other(tmp_path: Path) -> None:
    (exact,) = parts(tmp_path / "one")
    other = replace(exact, setting=replace(exact.setting, rule="threshold(0.9)", target="tiny-llada"))
    for drawn, panels in ((figures.transfer([exact, other]), 2), (figures.stale([exact, other]), 1)):
        assert drawn is not None
        assert len(drawn.axes) == panels
        assert "threshold(0.9)" in str(
            [[text.get_text() for text in drawn.axes[-1].get_yticklabels()], drawn.axes[-1].get_title()]
        )


def test_of_nothing_there_is_no_figure() -> None:
    assert list(figures.render([])) == []
