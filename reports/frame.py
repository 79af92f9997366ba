"""One tidy frame from finished cells: a row per prompt and method. Everything reported is computed from it."""

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import pandas as pd

from suite.cells import Cell
from suite.records import Sample, Stale
from suite.store import Store


def build(store: Store, cells: Iterable[Cell]) -> pd.DataFrame:
    """Columns: the fields of Cell, then the measures below (times in seconds; score: NaN where the task has none).

    Cells that are not finished are left out, and prompts without an answer; the caller knows which.
    """
    finished = [store.read(cell) for cell in cells if store.done(cell)]
    return pd.DataFrame(
        {**asdict(one.cell), **_measures(sample, one.manifest["settings"])}
        for one in finished
        for sample in one.samples
        if not sample.error
    )


def _measures(s: Sample, settings: dict[str, Any]) -> dict[str, Any]:
    return {
        "doc_id": s.doc_id,
        "prompt_tokens": s.prompt_tokens,
        "new_tokens": len(s.tokens),
        "passes": s.passes,
        "prefill_passes": s.prefill_passes,
        "verify_passes": s.verify_passes,
        "commit_passes": s.commit_passes,
        "rows_used": s.rows,
        "baseline_passes": s.baseline_passes,
        "prefill_s": s.prefill_s,
        "draft_s": s.draft_s,
        "verify_s": s.verify_s,
        "host_s": s.host_s,
        "decode_s": s.decode_s,
        "baseline_s": s.baseline_s,
        "exact_match": s.exact_match,
        "tie": bool(s.divergence and s.divergence.tie),
        "bug": bool(s.divergence and not s.divergence.tie),
        "finish": s.finish,
        "empty": s.empty,
        "repetitive": s.repetitive,
        "score": s.scores[settings["metric"]] if settings["metric"] else math.nan,
        "tiny": settings["tiny"],
        "replayed": settings.get("replayed", False),
        "depths": s.depths,
        **{f"stale_{name}": count for name, count in asdict(s.stale or Stale()).items()},
    }
