"""The drafter tables: one specification, rendered as Markdown, CSV and for the terminal."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pandas as pd
from rich.table import Table

from suite.measure.stats import Interval, mean, pooled_ratio, ratio


@dataclass(frozen=True)
class Line:
    """One method pooled over the tasks of a setting."""

    drafter: str
    rows: int
    prompts: int
    passes: float
    reduction: Interval
    pooled_reduction: float
    tokens_per_s: float
    speedup: Interval
    accuracy: Interval
    exact_match: float
    ties: int
    bugs: int


@dataclass(frozen=True)
class Setting:
    """What a table holds fixed."""

    target: str
    temperature: float
    rule: str
    tiny: bool

    @property
    def title(self) -> str:
        note = " (a tiny look-alike)" if self.tiny else ""
        return f"{self.target}{note}, T = {self.temperature:g}, {self.rule}"


COLUMNS: list[tuple[str, str, Callable[[Line], str]]] = [
    ("drafter", "left", lambda x: x.drafter),
    ("rows", "right", lambda x: str(x.rows)),
    ("passes", "right", lambda x: f"{x.passes:.1f}"),
    ("pass reduction [95 %]", "right", lambda x: _interval(x.reduction)),
    ("tokens/s", "right", lambda x: f"{x.tokens_per_s:.0f}"),
    ("speed-up [95 %]", "right", lambda x: _interval(x.speedup)),
    ("accuracy [95 %]", "right", lambda x: _interval(x.accuracy)),
    ("exact match", "right", lambda x: f"{x.exact_match:.1%}" + _faults(x)),
]
NOTE = (
    "passes: verify and commit passes per prompt, prefill excluded. pass reduction, speed-up: geometric mean over "
    "prompts of baseline / method, paired in one visit; 95 % bootstrap interval. tokens/s: tokens / decode time. "
    "exact match: prompts with the baseline's token ids."
)


def settings(frame: pd.DataFrame) -> Iterator[tuple[Setting, list[Line]]]:
    """Every table of a frame, in the order of the grid."""
    keys = ["target", "temperature", "rule", "tiny"]
    for values, part in frame.groupby(keys, sort=False):
        assert isinstance(values, tuple)
        yield Setting(*values), lines(part)


def lines(part: pd.DataFrame) -> list[Line]:
    """One line per drafter and budget, the baseline first."""
    return [
        _line(str(drafter), int(str(rows)), methods)
        for (drafter, rows), methods in part.groupby(["drafter", "rows"], sort=False)
    ]


def _line(drafter: str, rows: int, part: pd.DataFrame) -> Line:
    tasks = part["task"].tolist()
    return Line(
        drafter=drafter,
        rows=rows,
        prompts=len(part),
        passes=float(part["passes"].mean()),
        reduction=ratio(part["baseline_passes"].tolist(), part["passes"].tolist(), tasks),
        pooled_reduction=pooled_ratio(part["baseline_passes"].tolist(), part["passes"].tolist()),
        tokens_per_s=float(part["new_tokens"].sum() / part["decode_s"].sum()),
        speedup=ratio(part["baseline_s"].tolist(), part["decode_s"].tolist(), tasks),
        accuracy=mean(part["score"].tolist(), tasks),
        exact_match=float(part["exact_match"].mean()),
        ties=int(part["tie"].sum()),
        bugs=int(part["bug"].sum()),
    )


def terminal(setting: Setting, rows: list[Line]) -> Table:
    table = Table(title=setting.title, title_justify="left", caption_justify="left")
    for name, side, _ in COLUMNS:
        table.add_column(name, justify="right" if side == "right" else "left", no_wrap=True)
    for line in rows:
        table.add_row(*(show(line) for _, _, show in COLUMNS))
    return table


def markdown(setting: Setting, rows: list[Line]) -> str:
    head = "| " + " | ".join(name for name, _, _ in COLUMNS) + " |"
    rule = "|" + "|".join("---:" if side == "right" else "---" for _, side, _ in COLUMNS) + "|"
    body = ["| " + " | ".join(show(line) for _, _, show in COLUMNS) + " |" for line in rows]
    return "\n".join([f"### {setting.title}", "", head, rule, *body, ""])


def csv(tables: list[tuple[Setting, list[Line]]]) -> str:
    """All tables as one CSV, figures unrounded."""
    records = [
        {
            "target": setting.target,
            "temperature": setting.temperature,
            "rule": setting.rule,
            "drafter": line.drafter,
            "rows": line.rows,
            "prompts": line.prompts,
            "passes": line.passes,
            **_spread("pass_reduction", line.reduction),
            "pooled_pass_reduction": line.pooled_reduction,
            "tokens_per_s": line.tokens_per_s,
            **_spread("speedup", line.speedup),
            **_spread("accuracy", line.accuracy),
            "exact_match": line.exact_match,
            "numeric_ties": line.ties,
            "bugs": line.bugs,
        }
        for setting, rows in tables
        for line in rows
    ]
    return str(pd.DataFrame(records).to_csv(index=False))


def _spread(name: str, x: Interval) -> dict[str, float]:
    return {name: x.value, f"{name}_low": x.low, f"{name}_high": x.high}


def _interval(x: Interval) -> str:
    return f"{x.value:.2f} [{x.low:.2f}, {x.high:.2f}]"


def _faults(x: Line) -> str:
    return (f", {x.ties} ties" if x.ties else "") + (f", {x.bugs} BUGS" if x.bugs else "")
