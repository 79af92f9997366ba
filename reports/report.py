"""`spotbench report`: the tables of a grid as Markdown and CSV, beside its results."""

from pathlib import Path

import pandas as pd

from reports import frame, tables
from suite.cells import Cell
from suite.store import Store


def write(name: str, about: str, store: Store, cells: list[Cell]) -> tuple[Path, list[tuple[tables.Setting, list[tables.Line]]]]:
    """Write `report.md` and `report.csv` into the grid's folder; returns the former and the tables."""
    samples = frame.build(store, cells)
    made = list(tables.settings(samples))
    missing = [cell.id for cell in cells if not store.done(cell)]
    parts = [f"# {name}", "", about, "", tables.NOTE, ""]
    if missing:
        parts += [f"**Incomplete: {len(missing)} of {len(cells)} cells are not done**, and not in the tables.", ""]
    parts += [tables.markdown(setting, lines) for setting, lines in made]
    parts += [_by_task(samples)]
    store.root.mkdir(parents=True, exist_ok=True)
    path = store.root / "report.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    (store.root / "report.csv").write_text(tables.csv(made), encoding="utf-8")
    return path, made


def _by_task(samples: pd.DataFrame) -> str:
    """Accuracy of the baseline per task: what the targets can do."""
    base = samples[samples["drafter"] == "none"]
    if base.empty:
        return ""
    grouped = base.groupby(["target", "task", "temperature", "rule"], sort=False)
    head = ["### Baseline by task", "", "| target | task | T | rule | prompts | accuracy | passes | tokens |"]
    head += ["|---|---|---:|---|---:|---:|---:|---:|"]
    return "\n".join(
        head
        + [
            f"| {target} | {task} | {temperature:g} | {rule} | {len(part)} | {part['score'].mean():.2f} "
            f"| {part['passes'].mean():.1f} | {part['new_tokens'].mean():.1f} |"
            for (target, task, temperature, rule), part in grouped  # type: ignore[misc]
        ]
        + [""]
    )
