"""`spotbench track`: what each finished cell of a grid came to, as runs of a tracker."""

from collections.abc import Iterator, Sequence

from reports import frame, pooled, tables
from suite.cells import Cell
from suite.store import Store
from suite.tracking import Mirrored


def runs(name: str, store: Store, cells: Sequence[Cell]) -> Iterator[Mirrored]:
    """A run for each finished cell; at the end one for the grid, with the figures of its report."""
    rows = frame.build(store, cells)
    of_cell = dict(iter(rows.groupby("cell_id", sort=False))) if len(rows) else {}
    stamps = {}
    for cell in cells:
        if cell.id not in of_cell:
            continue
        manifest = store.read(cell).manifest
        (part,) = pooled.parts(of_cell[cell.id])
        (line,) = part.lines
        stamps[cell.id] = store.stamp(cell)
        depths = zip(line.acceptance.marginal, line.acceptance.conditional, strict=True)
        yield Mirrored(
            key=f"{store.root.parent.name} {cell.id}",
            stamp=stamps[cell.id],
            name=cell.id,
            group=name,
            job_type="replay" if part.setting.replayed else "cell",
            tags=[cell.target, cell.task, cell.rule, cell.drafter, f"T={cell.temperature:g}", f"rows={cell.rows}"]
            + (["tiny look-alike"] if part.setting.tiny else []),
            config={**manifest["cell"], **{key: manifest[key] for key in ("settings", "versions", "code", "hardware")}},
            summary={key: value for key, value in tables.record(part, line).items() if key not in manifest["cell"]},
            history=[{"accepted": share, "accepted_given_one_fewer": given} for share, given in depths],
        )
    pictures = {path.stem: path for path in sorted((store.root / "figures").glob("*.png"))}
    if pictures:
        yield Mirrored(
            key=f"{store.root.parent.name} {name}",
            stamp=" ".join([*stamps.values(), *(f"{path.stat().st_mtime_ns:x}" for path in pictures.values())]),
            name=f"{name} figures",
            group=name,
            job_type="report",
            tags=[name],
            config={"grid": name},
            summary={"cells": len(cells), "finished": len(stamps)},
            pictures=pictures,
        )
