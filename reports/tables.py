"""The drafter tables: one specification each, rendered as Markdown, CSV and for the terminal."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pandas as pd
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from suite.measure.acceptance import Acceptance, acceptance
from suite.measure.stats import Interval, mean, pooled_ratio, ratio

T = TypeVar("T")
NOT_MEASURED = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Line:
    """One method pooled over the tasks of a setting.

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

    @property
    def title(self) -> str:
        note = " (a tiny look-alike)" if self.tiny else ""
        context = "" if self.context == "cached" else f", {self.context}"
        replayed = ", replayed" if self.replayed else ""
        return f"{self.target}{note}{context}{replayed}, T = {self.temperature:g}, {self.rule}"

    @property
    def slug(self) -> str:
        """The same as a part of a file's name."""
        context = "" if self.context == "cached" else f"-{self.context}"
        text = f"{self.target}{context}-t{self.temperature:g}-{self.rule}"
        return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")


@dataclass(frozen=True)
class Part:
    """All tables of one setting."""

    setting: Setting
    lines: list[Line]
    baselines: list[Baseline]
    frame: pd.DataFrame = field(repr=False)

    @property
    def columns(self) -> "list[Column[Line]]":
        """Of the table of methods: a replay has no times but the drafter's own."""
        return REPLAYED if self.setting.replayed else METHODS

    @property
    def note(self) -> str:
        """What those columns mean."""
        return REPLAYED_NOTE if self.setting.replayed else METHODS_NOTE


@dataclass(frozen=True)
class Column(Generic[T]):
    """`brief`: what to show where the terminal is too narrow."""

    name: str
    show: Callable[[T], str]
    left: bool = False
    brief: Callable[[T], str] | None = None


METHODS: list[Column[Line]] = [
    Column("drafter", lambda x: x.drafter, left=True),
    Column("rows", lambda x: str(x.rows)),
    Column("passes", lambda x: f"{x.passes:.1f}"),
    Column("pass reduction", lambda x: _interval(x.reduction), brief=lambda x: f"{x.reduction.value:.2f}"),
    Column("tokens/s", lambda x: f"{x.tokens_per_s:.0f}"),
    Column("speed-up", lambda x: _interval(x.speedup), brief=lambda x: f"{x.speedup.value:.2f}"),
    Column("accuracy", lambda x: _or_dash(x.accuracy.value, 2)),
    Column("exact match", lambda x: f"{x.exact_match:.1%}" + _faults(x)),
]
REPLAYED: list[Column[Line]] = [
    *METHODS[:4],
    Column("of oracle", lambda x: _or_dash(x.of_oracle)),
    Column("steps/pass", lambda x: f"{x.acceptance.steps_per_pass:.2f}"),
    Column("draft ms/pass", lambda x: f"{x.draft_ms:.1f}" if x.draft_ms else "-"),
    *METHODS[6:],
]
METHODS_NOTE = (
    "Per prompt, all tasks pooled; [95 % bootstrap intervals over prompts]. passes: verify and commit passes, prefill "
    "excluded. pass reduction, speed-up: geometric mean of baseline / method, paired in one visit. tokens/s: tokens / "
    "decode time, prefill excluded. exact match: prompts with the baseline's token ids."
)
REPLAYED_NOTE = (
    "From traces, without the target. Per prompt, all tasks pooled; [95 % bootstrap intervals over prompts]. passes: "
    "verify and commit passes, prefill excluded. pass reduction: geometric mean of baseline / method, paired. of "
    "oracle: pooled pass reduction over that of the true order with stale tokens. draft ms/pass: the drafter's own "
    "time; where it was asked once for all budgets, of the largest."
)
ACCEPTANCE: list[Column[Line]] = [
    Column("drafter", lambda x: x.drafter, left=True),
    Column("rows", lambda x: str(x.rows)),
    Column("rows/pass", lambda x: f"{x.rows_per_pass:.2f}"),
    Column("tokens/pass", lambda x: f"{x.tokens_per_pass:.2f}"),
    Column("steps/pass", lambda x: f"{x.acceptance.steps_per_pass:.2f}" + ("" if x.acceptance.consistent else " (!)")),
    Column("by request", lambda x: f"{x.acceptance.steps_per_pass_by_request:.2f}"),
    Column("accepted 1, 2, 3, 4 or more", lambda x: _shares(x.acceptance.marginal)),
    Column("given one fewer", lambda x: _shares(x.acceptance.conditional)),
    Column("draft / verify / host", lambda x: _phases(x)),
]
ACCEPTANCE_NOTE = (
    "steps/pass: 1 + mean accepted depth, pooled over passes (by request: mean of each prompt's own). accepted d or "
    "more: share of passes; given one fewer: among the passes that accepted d-1. At 2 rows the first share is the "
    "drafter's next-commit accuracy, position and token. draft / verify / host: shares of decode time."
)
BASELINES: list[Column[Baseline]] = [
    Column("task", lambda x: x.task, left=True),
    Column("prompts", lambda x: str(x.prompts)),
    Column("accuracy", lambda x: _or_dash(x.accuracy, 2)),
    Column("tokens", lambda x: f"{x.tokens:.1f}"),
    Column("passes", lambda x: f"{x.passes:.1f}"),
    Column("prefill share", lambda x: "-" if math.isnan(x.prefill_share) else f"{x.prefill_share:.0%}"),
    Column("out of room", lambda x: str(x.out_of_room)),
    Column("empty", lambda x: str(x.empty)),
    Column("repetitive", lambda x: str(x.repetitive)),
    Column("stale token right", lambda x: _or_dash(x.stale_tokens)),
    Column("stale choice right", lambda x: _or_dash(x.stale_choices)),
]
BASELINES_NOTE = (
    "The plain decoder. stale: share of commits whose token, and of steps whose positions, the pass before already "
    "had (same noise). prefill share: of prefill + decode time. out of room: answers without an end."
)


def parts(frame: pd.DataFrame) -> Iterator[Part]:
    """Every setting of a frame, in the order of the grid; none of an empty one."""
    if frame.empty:
        return
    for values, part in _groups(frame, "target", "context", "temperature", "rule", "tiny", "replayed"):
        base = part[part["drafter"] == "none"]
        oracle = {
            int(rows): pooled_ratio(x["baseline_passes"].tolist(), x["passes"].tolist())
            for (rows,), x in _groups(part[part["drafter"] == "oracle"], "rows")
        }
        yield Part(
            Setting(*values),
            [_line(drafter, rows, x, oracle) for (drafter, rows), x in _groups(part, "drafter", "rows")],
            [_baseline(str(task), x) for task, x in base.groupby("task", sort=False)],
            part,
        )


def _groups(frame: pd.DataFrame, *keys: str) -> Iterator[tuple[Any, pd.DataFrame]]:
    """(values of the keys, their part of the frame), in order of first appearance."""
    yield from frame.groupby(list(keys), sort=False)


def _line(drafter: str, rows: int, part: pd.DataFrame, oracle: Mapping[int, float]) -> Line:
    """`oracle`: its pooled pass reduction by rows, where it was run."""
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


def terminal(title: str, columns: Sequence[Column[T]], rows: Sequence[T], width: int) -> Table:
    """For a terminal `width` characters wide: from the right, columns become brief until all fit; none is cut off."""
    table = Table(title=title, title_justify="left", padding=(0, 2, 0, 0), box=None, header_style="bold")
    shown = [[column.show(row) for row in rows] for column in columns]
    heads = [column.name.replace(" ", "\n") for column in columns]

    def needed() -> int:
        return sum(
            2 + max(map(cell_len, "\n".join([head, *cells]).splitlines()))
            for head, cells in zip(heads, shown, strict=True)
        )

    for n, column in reversed(list(enumerate(columns))):
        if column.brief and needed() > width:
            shown[n] = [column.brief(row) for row in rows]
    for column, head in zip(columns, heads, strict=True):
        table.add_column(
            head,
            justify="left" if column.left else "right",
            no_wrap=not column.left,
            overflow="fold",
            vertical="bottom",
        )
    for cells in zip(*shown, strict=True):
        table.add_row(*map(Text, cells))
    return table


def markdown(columns: Sequence[Column[T]], rows: Sequence[T]) -> str:
    lines = [
        "| " + " | ".join(column.name for column in columns) + " |",
        "|" + "|".join("---" if column.left else "---:" for column in columns) + "|",
        *("| " + " | ".join(_plain(column.show(row)) for column in columns) + " |" for row in rows),
    ]
    return "\n".join([*lines, ""])


def _plain(text: str) -> str:
    """`text` as one cell of a Markdown table, whatever it holds."""
    return " ".join(text.splitlines()).replace("\\", "\\\\").replace("|", "\\|")


def csv(made: Sequence[Part]) -> str:
    """All methods of all settings as one CSV, figures unrounded."""
    records = [
        {
            "target": part.setting.target,
            "context": part.setting.context,
            "temperature": part.setting.temperature,
            "rule": part.setting.rule,
            "drafter": x.drafter,
            "rows": x.rows,
            "prompts": x.prompts,
            "passes": x.passes,
            **_spread("pass_reduction", x.reduction),
            "pooled_pass_reduction": x.pooled_reduction,
            "of_oracle": x.of_oracle,
            "draft_ms": x.draft_ms,
            "tokens_per_s": x.tokens_per_s,
            **_spread("speedup", x.speedup),
            **_spread("accuracy", x.accuracy),
            "exact_match": x.exact_match,
            "numeric_ties": x.ties,
            "bugs": x.bugs,
            "rows_per_pass": x.rows_per_pass,
            "tokens_per_pass": x.tokens_per_pass,
            "steps_per_pass": x.acceptance.steps_per_pass,
            "steps_per_pass_by_request": x.acceptance.steps_per_pass_by_request,
            "draft_share": x.draft_share,
            "verify_share": x.verify_share,
            "host_share": x.host_share,
        }
        for part in made
        for x in part.lines
    ]
    return str(pd.DataFrame(records).to_csv(index=False))


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else math.nan


def _phases(x: Line) -> str:
    if math.isnan(x.verify_share):
        return "-"
    return f"{x.draft_share:.0%} / {x.verify_share:.0%} / {x.host_share:.0%}"


def _or_dash(share: float, digits: int = 3) -> str:
    return "-" if math.isnan(share) else f"{share:.{digits}f}"


def _spread(name: str, x: Interval) -> dict[str, float]:
    return {name: x.value, f"{name}_low": x.low, f"{name}_high": x.high}


def _interval(x: Interval) -> str:
    return f"{x.value:.2f} [{x.low:.2f}, {x.high:.2f}]"


def _shares(values: Sequence[float], depth: int = 4) -> str:
    return "  ".join(f"{share:.2f}" for share in values[:depth]) or "-"


def _faults(x: Line) -> str:
    counts = [(x.ties, "tie", "ties"), (x.bugs, "BUG", "BUGS")]
    return "".join(f", {n} {one if n == 1 else many}" for n, one, many in counts if n)
