"""One tidy frame from finished cells: a row per prompt and method. Everything reported is computed from it."""

from collections.abc import Iterable
from dataclasses import asdict

import pandas as pd

from suite.cells import Cell
from suite.records import Stale
from suite.store import Store

MEASURES = [
    "doc_id", "prompt_tokens", "new_tokens", "passes", "prefill_passes", "verify_passes", "commit_passes", "rows_used",
    "baseline_passes", "prefill_s", "draft_s", "verify_s", "host_s", "decode_s", "baseline_s",
    "exact_match", "tie", "bug", "empty", "repetitive", "score", "tiny", "depths",
    "stale_steps", "stale_commits", "stale_tokens", "stale_choices",
]  # fmt: skip


def build(store: Store, cells: Iterable[Cell]) -> pd.DataFrame:
    """Columns: those of Cell, then MEASURES. Cells that are not finished are left out; the caller knows which."""
    rows = []
    for cell in cells:
        if not store.done(cell):
            continue
        finished = store.read(cell)
        settings = finished.manifest["settings"]
        for s in finished.samples:
            rows.append(
                {
                    **asdict(cell),
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
                    "empty": s.empty,
                    "repetitive": s.repetitive,
                    "score": s.scores[settings["metric"]],
                    "tiny": settings["tiny"],
                    "depths": s.depths,
                    **{f"stale_{name}": count for name, count in asdict(s.stale or Stale()).items()},
                }
            )
    return pd.DataFrame(rows, columns=[*Cell.__dataclass_fields__, *MEASURES])
