"""The frame: what lies on disk, read once, and nothing that was not measured."""

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from reports import frame, pooled
from suite.cells import Cell
from suite.errors import UserError
from suite.store import Finished, Store
from tests.suite.tiny_grid import finish, made_cell, made_manifest, made_sample

CELLS = [made_cell("none"), made_cell("chain"), made_cell("chain", rows=9)]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "machine" / "grid")
    for cell in CELLS:
        finish(made, cell, [made_sample(n, depths=[n, 1]) for n in range(3)])
    return made


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    """The cells whose files were read."""
    read: list[Cell] = []
    real: Callable[[Store, Cell], Finished] = Store.read

    def counted(store: Store, cell: Cell) -> Finished:
        read.append(cell)
        return real(store, cell)

    monkeypatch.setattr(Store, "read", counted)
    return read


def test_what_was_read_is_kept_and_the_same(store: Store, reads: list[Cell]) -> None:
    first = frame.build(store, CELLS)
    assert reads == CELLS
    pd.testing.assert_frame_equal(frame.build(store, CELLS), first)
    pd.testing.assert_frame_equal(
        frame.build(store, CELLS[::-1]).sort_values(["rows", "doc_id"], ignore_index=True),
        first.sort_values(["rows", "doc_id"], ignore_index=True),
    )
    assert reads == CELLS, "nothing was read again"
    assert list(frame.build(store, CELLS[::-1])["cell_id"].unique()) == [cell.id for cell in CELLS[::-1]]


def test_a_cell_that_changed_is_read_again_and_a_new_one_too(store: Store, reads: list[Cell]) -> None:
    frame.build(store, CELLS)
    changed, added = CELLS[1], made_cell("oracle")
    for name in ("result.json", "manifest.json", "samples.jsonl", "steps.jsonl"):
        (store.root / changed.id / name).unlink()
    finish(store, changed, [made_sample(verify_passes=1, depths=[3])])
    finish(store, added, [made_sample()])
    reads.clear()
    found = frame.build(store, [*CELLS, added])
    assert reads == [changed, added]
    assert found[found["cell_id"] == changed.id]["passes"].tolist() == [1]
    assert len(found[found["cell_id"] == CELLS[2].id]) == 3


def test_damage_is_told_even_of_what_was_read_before(store: Store) -> None:
    frame.build(store, CELLS)
    path = store.root / CELLS[0].id / "samples.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UserError, match="damaged"):
        frame.build(store, CELLS)


@pytest.mark.parametrize("content", [b"", b"PAR1 nothing PAR1", b"\0" * 500])
def test_a_cache_that_cannot_be_read_is_none(content: bytes, store: Store) -> None:
    first = frame.build(store, CELLS)
    (store.root / frame.CACHE).write_bytes(content)
    pd.testing.assert_frame_equal(frame.build(store, CELLS), first)


def test_unfinished_cells_are_told_and_are_no_rows(store: Store) -> None:
    failed = made_cell("oracle")
    store.fail(failed, RuntimeError("no"), "")
    assert set(frame.build(store, [*CELLS, failed])["drafter"]) == {"none", "chain"}
    assert frame.missing(store, [*CELLS, failed]) == [failed]
    assert frame.build(store, [failed]).empty


def test_what_a_replay_does_not_measure_is_no_number(store: Store) -> None:
    cell = made_cell("spot", device="replay")
    manifest = made_manifest(cell, settings={"metric": "", "tiny": True, "weights": "w1", "replayed": True})
    store.finish(cell, manifest, [made_sample(scores={}, verify_s=0.0, host_s=0.0, baseline_s=0.0)], [], "")
    (row,) = frame.build(store, [cell]).to_dict("records")
    for name in ("verify_s", "host_s", "decode_s", "prefill_s", "baseline_s", "score"):
        assert math.isnan(row[name]), name
    assert row["draft_s"] == 0.125


def test_no_figure_pools_machines_and_no_speed_up_leaves_its_visit(tmp_path: Path) -> None:
    """Two machines, one twice as fast: each keeps its own figures. A baseline cell's own times are not used."""
    frames = []
    for machine, pace in (("slow", 2.0), ("fast", 1.0)):
        store = Store(tmp_path / machine / "grid")
        finish(store, CELLS[0], [made_sample(verify_s=99.0, verify_passes=4, depths=[0] * 4)])
        own = made_sample(draft_s=0.0, host_s=0.0, verify_s=pace, baseline_s=3 * pace)
        finish(store, CELLS[1], [own])
        frames.append(frame.build(store, CELLS[:2]))
    made = list(pooled.parts(pd.concat(frames, ignore_index=True)))
    lines = [next(line for line in part.lines if line.drafter == "chain") for part in made]
    assert [part.setting.machine for part in made] == ["slow", "fast"]
    assert [line.tokens_per_s for line in lines] == [2.0, 4.0]
    assert [line.speedup.value for line in lines] == pytest.approx([3.0, 3.0])


def test_a_line_tells_which_tasks_it_lacks(store: Store) -> None:
    other = [made_cell("none", task="tiny-math"), made_cell("chain", task="tiny-math"), made_cell("spot")]
    finish(store, other[0], [made_sample()])
    cells = [*CELLS, *other]
    (part,) = pooled.parts(frame.build(store, cells), frame.missing(store, cells))
    assert {(line.label, line.rows) for line in part.lines} == {
        ("none", 1),
        ("chain (without tiny-math)", 3),
        ("chain (without tiny-math)", 9),
    }
    assert part.absent == (("spot", 3),)


def test_reports_need_no_torch() -> None:
    script = "import sys, reports.report, reports.track; print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
