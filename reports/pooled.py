"""What a frame's prompts come to: a line for each method of each setting."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from suite.cells import Cell
from suite.measure.acceptance import Acceptance, acceptance
from suite.measure.stats import Interval, mean, pooled_ratio, ratio

NOT_MEASURED = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Line:
    """One method pooled over the tasks of a setting; `missing` are those of its cells that are not finished.

    `of_oracle`: its pooled pass reduction over that of the true order with stale tokens at equal rows, where that was
    run. `draft_ms`: the drafter's own time a pass. A replay has no other times; those are NaN, and so is the accuracy
    where no task has a score.
    """

    drafter: str
    rows: int
    prompts: int
    passes: float
    reduction: Interval
    pooled_reduction: float
    of_oracle: float
    draft_ms: float
    tokens_per_s: float
    speedup: Interval
    accuracy: Interval
    exact_match: float
    ties: int
    bugs: int
    rows_per_pass: float
    tokens_per_pass: float
    acceptance: Acceptance
    draft_share: float
    verify_share: float
    host_share: float
    missing: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The drafter, and what its figures lack."""
        return self.drafter + self.lacks

    @property
    def lacks(self) -> str:
        return f" (without {', '.join(self.missing)})" if self.missing else ""


@dataclass(frozen=True)
class Baseline:
    """One task of a setting, decoded without drafts: what the target can do and what there is to gain."""

    task: str
    prompts: int
    accuracy: float
    tokens: float
    passes: float
    prefill_share: float
    out_of_room: int
    empty: int
    repetitive: int
    stale_tokens: float
    stale_choices: float


@dataclass(frozen=True)
class Setting:
    """What a table holds fixed."""

    target: str
    context: str
    temperature: float
    rule: str
    tiny: bool
    replayed: bool
    machine: str = ""

    @property
    def place(self) -> str:
        """The target, and how it was run."""
        note = " (a tiny look-alike)" if self.tiny else ""
        context = "" if self.context == "cached" else f", {self.context}"
        return f"{self.target}{note}{context}" + (", replayed" if self.replayed else "")

    @property
    def title(self) -> str:
        return f"{self.place}, T = {self.temperature:g}, {self.rule}"

    @property
    def slug(self) -> str:
        """The same as a part of a file's name."""
        context = "" if self.context == "cached" else f"-{self.context}"
        return slug(f"{self.target}{context}-t{self.temperature:g}-{self.rule}")


def slug(text: str) -> str:
    """`text` as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")


@dataclass(frozen=True)
class Part:
    """All tables of one setting.

    `wanted`: the tasks, each with its seed, that every line should pool. `absent`: drafters and rows that have no line,
    as none of their cells is finished.
    """

    setting: Setting
    lines: list[Line]
    baselines: list[Baseline]
    frame: pd.DataFrame = field(repr=False)
    wanted: frozenset[tuple[str, int]] = frozenset()
    absent: tuple[tuple[str, int], ...] = ()


def parts(frame: pd.DataFrame, missing: Iterable[Cell] = ()) -> Iterator[Part]:
    """Every setting of a frame, in the order of the grid; none of an empty one. Machines are kept apart.

    `missing`: cells that were to be measured and are not in the frame. A line tells what it lacks of them, and of the
    tasks that another line of its setting has: all lines pool the same, or say what they do not.
    """
    if frame.empty:
        return
    unread: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in missing:
        unread.setdefault((cell.target, cell.context, cell.temperature, cell.rule), []).append(cell)
    for values, part in _groups(frame, "target", "context", "temperature", "rule", "tiny", "replayed", "machine"):
        base = part[part["drafter"] == "none"]
        oracle = {
            int(rows): pooled_ratio(x["baseline_passes"].tolist(), x["passes"].tolist())
            for (rows,), x in _groups(part[part["drafter"] == "oracle"], "rows")
        }
        absent = unread.get(values[:4], [])
        wanted = frozenset(units(part) | {(cell.task, cell.seed) for cell in absent})
        lines = [_line(drafter, rows, x, wanted, oracle) for (drafter, rows), x in _groups(part, "drafter", "rows")]
        yield Part(
            Setting(*values),
            lines,
            [_baseline(str(task), x) for task, x in base.groupby("task", sort=False)],
            part,
            wanted,
            tuple(dict.fromkeys((x.drafter, x.rows) for x in absent if not _has(lines, x.drafter, x.rows))),
        )


def by_task(part: Part) -> dict[str, list[Line]]:
    """Its lines for each task alone."""
    found = {}
    for (task,), x in _groups(part.frame, "task"):
        wanted = frozenset(unit for unit in part.wanted if unit[0] == task)
        found[str(task)] = [
            _line(drafter, rows, one, wanted, {}) for (drafter, rows), one in _groups(x, "drafter", "rows")
        ]
    return found


def _has(lines: Sequence[Line], drafter: str, rows: int) -> bool:
    return any((line.drafter, line.rows) == (drafter, rows) for line in lines)


def units(part: pd.DataFrame) -> set[tuple[str, int]]:
    """The tasks of a part of the frame, with their seeds."""
    return {(str(task), int(seed)) for task, seed in part[["task", "seed"]].drop_duplicates().itertuples(index=False)}


def _groups(frame: pd.DataFrame, *keys: str) -> Iterator[tuple[Any, pd.DataFrame]]:
    """(values of the keys, their part of the frame), in order of first appearance."""
    yield from frame.groupby(list(keys), sort=False)


def _line(
    drafter: str, rows: int, part: pd.DataFrame, wanted: Set[tuple[str, int]], oracle: Mapping[int, float]
) -> Line:
    """`wanted`: the tasks and seeds that it should pool; `oracle`: the pooled reductions of that, by rows."""
    replayed = bool(part["replayed"].iloc[0])
    tasks, seconds = part["task"].tolist(), part["decode_s"].sum()
    verify_passes = part["verify_passes"].sum()
    reduction = pooled_ratio(part["baseline_passes"].tolist(), part["passes"].tolist())
    return Line(
        drafter=drafter,
        rows=rows,
        prompts=len(part),
        passes=float(part["passes"].mean()),
        reduction=ratio(part["baseline_passes"].tolist(), part["passes"].tolist(), tasks),
        pooled_reduction=reduction,
        of_oracle=reduction / oracle.get(rows, math.nan),
        draft_ms=float(1000 * part["draft_s"].sum() / verify_passes),
        tokens_per_s=math.nan if replayed else float(part["new_tokens"].sum() / seconds),
        speedup=NOT_MEASURED if replayed else ratio(part["baseline_s"].tolist(), part["decode_s"].tolist(), tasks),
        accuracy=_accuracy(part),
        exact_match=float(part["exact_match"].mean()),
        ties=int(part["tie"].sum()),
        bugs=int(part["bug"].sum()),
        rows_per_pass=float(part["rows_used"].sum() / verify_passes),
        tokens_per_pass=float(part["new_tokens"].sum() / part["passes"].sum()),
        acceptance=acceptance(part["depths"].tolist()),
        draft_share=math.nan if replayed else float(part["draft_s"].sum() / seconds),
        verify_share=math.nan if replayed else float(part["verify_s"].sum() / seconds),
        host_share=math.nan if replayed else float(part["host_s"].sum() / seconds),
        missing=tuple(f"{task} seed {seed}" if seed else task for task, seed in sorted(wanted - units(part))),
    )


def _accuracy(part: pd.DataFrame) -> Interval:
    """Over the tasks that have a score."""
    scored = part[part["score"].notna()]
    return mean(scored["score"].tolist(), scored["task"].tolist()) if len(scored) else NOT_MEASURED


def _baseline(task: str, part: pd.DataFrame) -> Baseline:
    prefill = part["prefill_s"].sum()
    return Baseline(
        task=task,
        prompts=len(part),
        accuracy=float(part["score"].mean()),
        tokens=float(part["new_tokens"].mean()),
        passes=float(part["passes"].mean()),
        prefill_share=_share(prefill, prefill + part["decode_s"].sum()),
        out_of_room=int((part["finish"] == "length").sum()),
        empty=int(part["empty"].sum()),
        repetitive=int(part["repetitive"].sum()),
        stale_tokens=_share(part["stale_tokens"].sum(), part["stale_commits"].sum()),
        stale_choices=_share(part["stale_choices"].sum(), part["stale_steps"].sum()),
    )


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else math.nan
