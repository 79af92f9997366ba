"""The figures: the tables' values, the same bytes every time."""

from dataclasses import replace
from pathlib import Path

import pytest

from reports import figures, frame, maps, pooled
from reports.pooled import Part
from suite.cells import Cell
from suite.records import Stale, Step
from suite.store import Store
from tests.suite.tiny_grid import finish, made_cell, made_manifest, made_sample

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
    drawn = figures.reduction([part])
    assert drawn is not None
    curves = {line.get_label(): line for line in drawn.axes[0].lines}
    assert list(curves) == ["chain", "oracle", "mine@1"], "no baseline, no uncoupled twin"
    for name, curve in curves.items():
        wanted = {line.rows: line.reduction.value for line in part.lines if line.drafter == name}
        assert dict(zip(curve.get_xdata(), curve.get_ydata(), strict=True)) == pytest.approx(wanted)


def test_the_same_tables_give_the_same_bytes(tmp_path: Path) -> None:
    made = parts(tmp_path / "store", ("tiny-sdar-b16", "tiny-llada"))
    drawn = dict(figures.files(figures.draw(made)))
    assert dict(figures.files(figures.draw(made))) == drawn
    assert {"transfer.pdf", "transfer.png"} < drawn.keys()
    assert all(content.startswith((b"%PDF", b"\x89PNG")) for content in drawn.values())


def test_a_look_alike_is_called_one_in_its_figures(tmp_path: Path) -> None:
    made = figures.draw(parts(tmp_path, ("tiny-sdar-b16", "tiny-llada")))
    assert {one.name.split("-")[0] for one in made} == {"reduction", "time", "throughput", "depth", "transfer", "stale"}
    for one in made:
        assert "Tiny look-alikes, not published models: tiny-llada, tiny-sdar-b16." in one.caption


def test_targets_are_compared_where_there_are_two(tmp_path: Path) -> None:
    assert maps.transfer(parts(tmp_path / "one")) is None
    drawn = maps.transfer(parts(tmp_path / "two", ("tiny-sdar-b16", "tiny-llada")))
    assert drawn is not None
    texts = [text.get_text() for text in drawn.axes[0].texts]
    assert texts == ["4.75 (100%)"] * 6, "9 and 10 passes instead of 2 and 2, for three drafters on two targets"


def test_rules_are_never_drawn_over_each_other(tmp_path: Path) -> None:
    (exact,) = parts(tmp_path / "one")
    other = replace(exact, setting=replace(exact.setting, rule="threshold(0.9)", target="tiny-llada"))
    for drawn, panels in ((maps.transfer([exact, other]), 2), (maps.stale([exact, other]), 2)):
        assert drawn is not None
        assert len(drawn.axes) == panels
        assert "threshold(0.9)" in drawn.axes[-1].get_title()
    assert {one.name for one in figures.draw([exact, other])} >= {"reduction-exact", "reduction-threshold-0.9"}


def test_of_nothing_there_is_no_figure() -> None:
    assert figures.draw([]) == []


def test_settings_that_share_axes_are_panels_of_one_figure(tmp_path: Path) -> None:
    (part,) = parts(tmp_path)
    many = [
        replace(part, setting=replace(part.setting, target=target, temperature=temperature))
        for target in ("a", "b", "c")
        for temperature in (0.0, 1.0)
    ]
    names = [one.name for one in figures.draw(many)]
    assert names == [
        "reduction-exact", "time-exact", "throughput-exact", "depth-t0-exact", "depth-t1-exact", "transfer", "stale",
    ]  # fmt: skip


def test_phases_add_up_to_the_time_of_a_token(tmp_path: Path) -> None:
    (part,) = parts(tmp_path)
    drawn = figures.time([part])
    assert drawn is not None
    bars: dict[float, float] = {}
    for bar in drawn.axes[0].patches:
        bars[bar.get_y()] = bars.get(bar.get_y(), 0.0) + bar.get_width()
    tokens_per_s = 4 / 0.75
    assert list(bars.values()) == pytest.approx([1000 / tokens_per_s] * 4)


def test_the_model_predicts_what_it_is_true_of_and_of_others_only(tmp_path: Path) -> None:
    """Every pass takes 10 ms and every row 2 ms; one drafter's take longer, which its prediction cannot know."""
    store, cells = Store(tmp_path / "machine" / "grid"), list[Cell]()
    for drafter, rows, slower in (("none", 1, 0.0), ("chain", 3, 0.0), ("chain", 9, 0.0), ("spot", 9, 0.05)):
        cell = made_cell(drafter, rows=rows)
        made = [
            made_sample(
                n, verify_passes=k, rows=k * rows, depths=[0] * k, draft_s=0.004, host_s=0.0,
                verify_s=0.010 * k + 0.002 * k * rows + slower,
            )
            for n, k in enumerate((4, 7, 9))
        ]  # fmt: skip
        finish(store, cell, made)
        cells.append(cell)
    (part,) = pooled.parts(frame.build(store, cells))
    measured = {(line.drafter, line.rows): line.tokens_per_s for line in part.lines}
    seconds = sum(0.004 + 0.010 * k + 0.002 * k * 9 for k in (4, 7, 9))
    found = figures.predicted(part)
    assert found["spot", 9] == pytest.approx(12 / seconds)
    assert measured["spot", 9] < 0.9 * found["spot", 9]


def test_costs_that_cannot_be_told_apart_are_not_predicted(tmp_path: Path) -> None:
    """Where all others have the same rows a pass, a pass and its rows cost what they cost together."""
    store, cells = Store(tmp_path / "machine" / "grid"), [made_cell("none"), made_cell("chain")]
    for cell in cells:
        finish(store, cell, [made_sample(n, rows=2 * cell.rows) for n in range(3)])
    (part,) = pooled.parts(frame.build(store, cells))
    assert figures.predicted(part) == {}


def test_one_decode_is_drawn_from_the_kept_passes(tmp_path: Path) -> None:
    store, cells = Store(tmp_path), [made_cell("none"), made_cell("chain"), made_cell("spot")]
    kept = {
        "none": [Step(0, n, 1, 0, 0.0, 0.1, 0.0, block=n // 2, committed=[[n % 2]]) for n in range(4)],
        "spot": [Step(0, n, 3, 1, 0.0, 0.1, 0.0, block=n, committed=[[1], [0]]) for n in range(2)],
    }
    kept["spot"][1] = replace(kept["spot"][1], rejected=[1])
    for cell in cells:
        store.finish(cell, made_manifest(cell), [made_sample(0)], kept.get(cell.drafter, []), "exact_match")
    (part,) = pooled.parts(frame.build(store, cells))
    one = maps.pick(store, cells, [part])
    assert one is not None and (one.drafter, one.rows, one.doc_id, one.task) == ("spot", 3, 0, "tiny-gsm")
    assert (one.plain, one.drafted) == (kept["none"], kept["spot"])
    drawn = maps.decode(one)
    own, accepted, rejected = (
        {tuple(map(int, at)) for at in marks.get_offsets()} for marks in drawn.axes[1].collections
    )
    assert own == {(1, 0), (2, 2)}
    assert accepted == {(1, 1), (2, 3)}
    assert rejected == {(2, 3)}


def test_results_without_kept_passes_show_no_decode(tmp_path: Path) -> None:
    store, cells = Store(tmp_path), [made_cell("none"), made_cell("spot")]
    for cell in cells:
        store.finish(cell, made_manifest(cell), [made_sample(0)], [], "exact_match")
    assert maps.pick(store, cells, list(pooled.parts(frame.build(store, cells)))) is None


def test_rules_share_a_plane_of_quality_and_speed(tmp_path: Path) -> None:
    (exact,) = parts(tmp_path)
    assert figures.plane([exact]) is None
    other = replace(exact, setting=replace(exact.setting, rule="threshold(0.9)"))
    drawn = figures.plane([exact, other])
    assert drawn is not None and len(drawn.axes) == 1
    x, y = drawn.axes[0].containers[0].lines[0].get_data()
    (base,) = [line for line in exact.lines if line.drafter == "none"]
    assert (list(x), list(y)) == ([base.tokens_per_s], [base.accuracy.value])
