"""The drafter tables: one specification each, rendered as Markdown, CSV and for the terminal."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pandas as pd
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from reports.pooled import Baseline
from reports.pooled import Line as Line
from reports.pooled import Part as Part
from reports.pooled import parts as parts
from suite.measure.stats import Interval

T = TypeVar("T")


@dataclass(frozen=True)
class Column(Generic[T]):
    """`brief`: what to show where the terminal is too narrow."""

    name: str
    show: Callable[[T], str]
    left: bool = False
    brief: Callable[[T], str] | None = None


METHODS: list[Column[Line]] = [
    Column("drafter", lambda x: x.label, left=True),
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
    Column("drafter", lambda x: x.label, left=True),
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
    "more: share of passes; given one fewer: among the passes that accepted d-1. A block's first pass has no "
    "drafts. draft / verify / host: shares of decode time."
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


def _lifted(columns: Sequence[Column[T]]) -> list[Column[tuple[Part, T]]]:
    """The same columns for rows that know their setting."""
    return [_of_second(column) for column in columns]


def _of_second(of: Column[T]) -> Column[tuple[Part, T]]:
    brief = of.brief
    return Column(of.name, lambda x: of.show(x[1]), of.left, (lambda x: brief(x[1])) if brief else None)


SETTING: list[Column[tuple[Part, Any]]] = [
    Column("T", lambda x: f"{x[0].setting.temperature:g}"),
    Column("rule", lambda x: x[0].setting.rule, left=True),
]
PLAIN: list[Column[tuple[Part, Line]]] = [
    *SETTING,
    Column("passes", lambda x: f"{x[1].passes:.1f}" + x[1].lacks),
    Column("tokens/pass", lambda x: f"{x[1].tokens_per_pass:.2f}"),
    Column("tokens/s", lambda x: _or_dash(x[1].tokens_per_s, 0)),
    Column("accuracy", lambda x: "-" if math.isnan(x[1].accuracy.value) else _interval(x[1].accuracy)),
]
PLAIN_TASKS: list[Column[tuple[Part, Baseline]]] = [*SETTING, *_lifted(BASELINES)]


@dataclass(frozen=True)
class Section:
    """A table of methods under its title, and the settings it is of. `plain`: none of these has drafts."""

    title: str
    columns: list[Column[tuple[Part, Line]]]
    parts: list[Part]
    plain: bool

    @property
    def rows(self) -> list[tuple[Part, Line]]:
        return [(part, line) for part in self.parts for line in part.lines]


def methods(part: Part) -> list[Column[Line]]:
    """Of its table of methods: a replay has no times but the drafter's own."""
    return REPLAYED if part.setting.replayed else METHODS


def note(part: Part) -> str:
    """What those columns mean."""
    return REPLAYED_NOTE if part.setting.replayed else METHODS_NOTE


def sections(made: Sequence[Part]) -> Iterator[Section]:
    """A table for each setting with drafts; those that were decoded without any are lines of one table a target."""
    plain: dict[str, list[Part]] = {}
    for part in made:
        if any(line.drafter != "none" for line in part.lines):
            yield Section(part.setting.title, _lifted(methods(part)), [part], plain=False)
        else:
            plain.setdefault(part.setting.place, []).append(part)
    for place, of in plain.items():
        yield Section(f"{place}, without drafts", PLAIN, of, plain=True)


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
    return str(pd.DataFrame(record(part, line) for part in made for line in part.lines).to_csv(index=False))


def record(part: Part, x: Line) -> dict[str, Any]:
    """All figures of a line, unrounded, by name."""
    return {
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
        "without": ", ".join(x.missing),
        "rows_per_pass": x.rows_per_pass,
        "tokens_per_pass": x.tokens_per_pass,
        "steps_per_pass": x.acceptance.steps_per_pass,
        "steps_per_pass_by_request": x.acceptance.steps_per_pass_by_request,
        "draft_share": x.draft_share,
        "verify_share": x.verify_share,
        "host_share": x.host_share,
    }


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
