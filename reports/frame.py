"""One tidy frame from finished cells: a row per prompt and method. Everything reported is computed from it.

Reading is done once: `frame.parquet` beside the cells holds what was read, and a cell is read again when any of its
files is another than it was.
"""

import hashlib
import io
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from suite import records
from suite.cells import Cell
from suite.errors import UserError
from suite.records import Sample, Stale
from suite.store import Store

CACHE = "frame.parquet"
CELL = [field.name for field in fields(Cell)]
COUNTS = ["doc_id", "prompt_tokens", "passes", "prefill_passes", "verify_passes", "commit_passes", "baseline_passes"]
TIMES = ["prefill_s", "draft_s", "verify_s", "host_s", "decode_s", "baseline_s"]
FLAGS = ["exact_match", "finish", "empty", "repetitive"]
STALE = [field.name for field in fields(Stale)]
PLAIN = attrgetter(*COUNTS, *TIMES, *FLAGS, "depths")
MEASURES = [*COUNTS, *TIMES, *FLAGS, "depths", "new_tokens", "rows_used", "tie", "bug", "score"] + [
    f"stale_{name}" for name in STALE
]
SOURCES = [Path(str(file)).read_bytes() for file in (__file__, records.__file__)]
VERSION = hashlib.sha256(b"".join(SOURCES)).hexdigest()[:8]
"""Of what this module and the schemas make of a cell."""


def build(store: Store, cells: Iterable[Cell]) -> pd.DataFrame:
    """Columns: the fields of Cell; of the run `cell_id`, `machine`, `code`, `weights`, `tiny`, `replayed`; then the
    measures of a prompt (times in seconds). What was not measured is NaN: the times of a replay besides `draft_s`, the
    score of a task that has none.

    Cells that are not finished are no rows of it, nor are prompts without an answer; `missing` and `remarks` tell them.
    Raises UserError on damaged ones.
    """
    wanted = {cell: f"{VERSION}-{stamp}" for cell in cells if (stamp := store.stamp(cell))}
    cached = _cached(store)
    held = dict(zip(cached["cell_id"], cached["stamp"], strict=True)) if len(cached) else {}
    unread = [cell for cell, stamp in wanted.items() if held.get(cell.id) != stamp]
    known = cached
    if unread:
        kept = cached[~cached["cell_id"].isin([cell.id for cell in unread])] if len(cached) else cached
        new = _read(store, unread, wanted)
        known = pd.concat([kept, new], ignore_index=True) if len(kept) else new
        _remember(store, known)
    if known.empty:
        return known
    place = {cell.id: n for n, cell in enumerate(wanted)}
    order = known["cell_id"].map(place)
    frame = known[order.notna()]
    return frame.iloc[np.argsort(order[order.notna()].to_numpy(), kind="stable")].reset_index(drop=True)


def missing(store: Store, cells: Iterable[Cell]) -> list[Cell]:
    """Those that are not finished: they were to be measured, other than what cannot be."""
    return [cell for cell in cells if not store.done(cell)]


def _read(store: Store, cells: Sequence[Cell], stamps: dict[Cell, str]) -> pd.DataFrame:
    machine = store.root.parent.name
    of_cells: list[tuple[Any, ...]] = []
    of_samples: list[tuple[Any, ...]] = []
    for cell in cells:
        one = store.read(cell)
        settings = one.manifest["settings"]
        of_run = (cell.id, machine, one.manifest["code"], settings["weights"], settings["tiny"])
        values = [getattr(one.cell, name) for name in CELL]
        answered = [sample for sample in one.samples if not sample.error]
        of_cells.append((len(answered), *values, *of_run, settings.get("replayed", False), stamps[cell]))
        of_samples += [(*PLAIN(sample), *_derived(sample, settings["metric"])) for sample in answered]
    names = ["prompts_read", *CELL, "cell_id", "machine", "code", "weights", "tiny", "replayed", "stamp"]
    runs = pd.DataFrame(of_cells, columns=names)
    repeated = runs.loc[np.repeat(runs.index, runs["prompts_read"]), names[1:]].reset_index(drop=True)
    frame = pd.concat([repeated, pd.DataFrame(of_samples, columns=MEASURES)], axis=1)
    frame.loc[frame["replayed"], [name for name in TIMES if name != "draft_s"]] = math.nan
    return frame


def _derived(s: Sample, metric: str) -> tuple[Any, ...]:
    tie = s.divergence is not None and s.divergence.tie
    stale = s.stale or Stale()
    return (
        len(s.tokens),
        s.rows,
        tie,
        s.divergence is not None and not tie,
        s.scores[metric] if metric else math.nan,
        stale.steps,
        stale.commits,
        stale.tokens,
        stale.choices,
    )


def _cached(store: Store) -> pd.DataFrame:
    """What was read before by this version; nothing where that cannot be told."""
    try:
        frame = pd.read_parquet(store.root / CACHE)
        frame = frame[frame["stamp"].str.startswith(VERSION)].reset_index(drop=True)
        frame["depths"] = [depths.tolist() for depths in frame["depths"]]
        return frame
    except (OSError, ValueError, KeyError, AttributeError):  # pyarrow's errors are among these
        return pd.DataFrame()


def _remember(store: Store, frame: pd.DataFrame) -> None:
    content = io.BytesIO()
    frame.to_parquet(content, index=False)
    with suppress(UserError):  # results that may only be read can be reported all the same
        store.write_report(CACHE, content.getvalue())
