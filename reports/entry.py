"""Leaderboard entries: what one drafter did on one target, as a JSON file that anybody can read, send and check.

An entry holds the passes of every prompt, so its figures follow from it, and two entries can be compared prompt by
prompt. It holds no paths, host names or texts of evaluation items; one short decode is kept to be looked at.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from suite.errors import UserError, first_line
from suite.files import replace_file, writing
from suite.measure.stats import Interval, ratio

SHIPPED = Path(__file__).parent / "entries"
VERSION: Literal[1] = 1
DIGITS = 4
Passes = list[Annotated[int, Field(ge=1)]]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Spread(NamedTuple):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, x: Interval, digits: int | None = None) -> "Spread":
        ends = (x.value, x.low, x.high)
        return cls(*(ends if digits is None else (round(end, digits) for end in ends)))


class Card(_Part):
    """`drafters.base.DrafterCard`, and what else the drafter says of itself."""

    about: str
    kind: Literal["training-free", "calibrated", "learned", "bound"]
    parameters: int
    home: str
    tasks: list[str]
    split: str
    data: str
    needs_future: bool


class Settings(_Part):
    """What an entry holds fixed: the fields of its cells (`suite.cells.Cell`) other than the axes within it."""

    target: str
    rule: str
    seed: int
    prompts: int
    top_k: int
    top_p: float
    context: str
    commit: str
    layout: str
    dtype: str
    device: str


class Origin(_Part):
    """Where the figures come from. `code`: of the suite that measured; `machine`: what it was, without a host name."""

    spotbench: str
    code: str
    machine: str
    date: str


class Budget(_Part):
    """One task at so many rows.

    `passes`: of each prompt; `pass_reduction` follows from them, and is here to be read, to four decimals. Times and
    what follows from them are None in a replay; `draft_ms` a pass, the drafter's own, where it was timed.
    """

    rows: Annotated[int, Field(ge=2)]
    passes: Passes
    pass_reduction: Spread
    rows_per_pass: float
    steps_per_pass: float
    exact: int
    ties: int
    draft_ms: float | None = None
    tokens_per_s: float | None = None
    speedup: Spread | None = None


class Result(_Part):
    """One task at one temperature.

    `trace`: a hash of what was asked, answered, and of the baseline's passes. `degenerate`: empty or repetitive
    answers. `accuracy`: None where the task has no score.
    """

    task: str
    task_version: str
    temperature: float
    trace: str
    accuracy: float | None
    degenerate: int
    baseline_passes: Passes
    budgets: list[Budget]

    @property
    def title(self) -> str:
        return f"{self.task} T={self.temperature:g}"


class Pooled(_Part):
    """All the tasks of an entry together."""

    temperature: float
    rows: int
    pass_reduction: Spread
    speedup: Spread | None = None


class Line(_Part):
    """One pass of a decode: a letter for each position of the block, and the tokens of those that have one.

    o: committed by the target's own step; a: drafted and accepted; r: drafted and rejected; m: masked; e: committed
    earlier.
    """

    rows: int
    depth: int
    marks: str
    tokens: list[str]


class Block(_Part):
    """A block's passes and what it became; `given`: how many positions the prompt filled."""

    index: int
    given: int
    lines: list[Line]
    text: list[str]


class Steps(_Part):
    """One decode, pass by pass."""

    task: str
    temperature: float
    doc_id: int
    rows: int
    blocks: list[Block]


class Entry(_Part):
    """One drafter on one target under one commit rule. `code`: a hash of the drafter's source and what it imports."""

    version: Literal[1]
    drafter: str
    card: Card
    code: str
    settings: Settings
    weights: str
    tiny: bool
    origin: Origin
    results: Annotated[list[Result], Field(min_length=1)]
    pooled: list[Pooled]
    steps: Steps | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Entries of the same key replace each other."""
        return self.settings.target, self.settings.context, self.settings.rule, self.drafter

    @property
    def file(self) -> str:
        """A plain name, whatever the parts are called."""
        context = "" if self.settings.context in ("cached", "whole") else self.settings.context
        parts = [self.settings.target, context, self.settings.rule, self.drafter]
        return ".".join(re.sub(r"[^A-Za-z0-9._@-]+", "-", part).strip("-.") for part in parts if part) + ".json"

    @property
    def replayed(self) -> bool:
        return self.settings.device == "replay"

    @property
    def temperatures(self) -> list[float]:
        return list(dict.fromkeys(result.temperature for result in self.results))

    @cached_property
    def reductions(self) -> dict[tuple[str, float, int], Interval]:
        """By task (empty: all of them pooled), temperature and rows; computed from the passes."""
        parts = {("", x.temperature, x.rows): self.at(x.temperature, x.rows) for x in self.pooled}
        single = {(r.task, r.temperature, b.rows): [(r, b)] for r in self.results for b in r.budgets}
        return {key: reduction(of) for key, of in (parts | single).items()}

    def at(self, temperature: float, rows: int) -> list[tuple[Result, Budget]]:
        """Of every task that has it."""
        return [
            (result, budget)
            for result in self.results
            if result.temperature == temperature
            for budget in result.budgets
            if budget.rows == rows
        ]


def reduction(results: Sequence[tuple[Result, Budget]]) -> Interval:
    """Of some tasks pooled; by the function of every table."""
    baseline = [n for result, _ in results for n in result.baseline_passes]
    passes = [n for _, budget in results for n in budget.passes]
    return ratio(baseline, passes, [result.task for result, _ in results for _ in result.baseline_passes])


def read(path: Path) -> Entry:
    """Raises UserError, in one line, on what is no entry or whose figures do not follow from its passes."""
    try:
        entry = Entry.model_validate_json(path.read_bytes())
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"])) or "file"
        raise UserError(f"{path}: {where}: {fault['msg']}; make it again with spotbench leaderboard add") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({first_line(error)})") from error
    for fault_ in faults(entry):
        raise UserError(f"{path}: {fault_}")
    return entry


def read_all(*folders: Path) -> list[Entry]:
    """Every entry of some folders; a later one takes the place of one of the same key."""
    found = {}
    for folder in folders:
        for path in sorted(folder.glob("*.json")):
            one = read(path)
            found[one.key] = one
    return list(found.values())


def write(entry: Entry, path: Path) -> Path:
    """Over what was there."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (_json(entry.model_dump(mode="json", exclude_none=True)) + "\n").encode())
    return path


def faults(entry: Entry) -> Iterator[str]:
    """What contradicts itself in an entry: figures that its passes do not make. Nothing is measured again."""
    if uneven := list(_uneven(entry)):
        yield from uneven
        return
    for pooled in entry.pooled:
        where = f"pooled T={pooled.temperature:g} {pooled.rows} rows"
        yield from _forged(where, pooled.pass_reduction, entry.reductions["", pooled.temperature, pooled.rows])
    for result in entry.results:
        for budget in result.budgets:
            where = f"{result.title} {budget.rows} rows"
            yield from _forged(
                where, budget.pass_reduction, entry.reductions[result.task, result.temperature, budget.rows]
            )


def holes(entry: Entry) -> Iterator[str]:
    """What an entry lacks of what it set out to measure: every task and budget at every temperature, all prompts."""
    tasks = list(dict.fromkeys(result.task for result in entry.results))
    there = {(r.task, r.temperature, b.rows) for r in entry.results for b in r.budgets}
    budgets = sorted({rows for _, _, rows in there})
    for task, temperature, rows in product(tasks, entry.temperatures, budgets):
        if (task, temperature, rows) not in there:
            yield f"{task} T={temperature:g} {rows} rows is missing"
    for result in entry.results:
        if entry.settings.prompts not in (0, prompts := len(result.baseline_passes)):
            yield f"{result.title}: {prompts} of {entry.settings.prompts} prompts"


def _uneven(entry: Entry) -> Iterator[str]:
    """Lists that do not fit each other."""
    if repeated := [title for title, n in Counter(result.title for result in entry.results).items() if n > 1]:
        yield f"results: {repeated[0]} is there twice"
    for result in entry.results:
        prompts, rows = len(result.baseline_passes), [budget.rows for budget in result.budgets]
        if any(a >= b for a, b in pairwise(rows)):
            yield f"{result.title}: budgets are not in order of rows"
        for budget in result.budgets:
            where = f"{result.title} {budget.rows} rows"
            if len(budget.passes) != prompts:
                yield f"{where}: passes of {len(budget.passes)} prompts, the baseline's are of {prompts}"
            if min(budget.exact, budget.ties) < 0 or budget.exact + budget.ties > prompts:
                yield f"{where}: {budget.exact} exact answers and {budget.ties} ties of {prompts} prompts"
    wanted = sorted({(r.temperature, b.rows) for r in entry.results for b in r.budgets})
    if [(x.temperature, x.rows) for x in entry.pooled] != wanted:
        yield "pooled: not the temperatures and budgets of the results"


def _forged(where: str, told: Spread, made: Interval) -> Iterator[str]:
    if told != (true := Spread.of(made, DIGITS)):
        yield f"{where}: pass_reduction {_spread(told)}, its passes make {_spread(true)}"


def _spread(x: Spread) -> str:
    return f"{x.value} [{x.low}, {x.high}]"


def _json(value: Any, depth: int = 0) -> str:
    """A line for each budget, pass and setting: small, and differences can be read."""
    if depth == 4 or not isinstance(value, dict | list) or not any(isinstance(x, dict | list) for x in _items(value)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    inner = "\n" + " " * (depth + 1)
    parts = (
        [f"{json.dumps(key)}:{_json(x, depth + 1)}" for key, x in value.items()]
        if isinstance(value, dict)
        else [_json(x, depth + 1) for x in value]
    )
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}{inner}{f',{inner}'.join(parts)}\n{' ' * depth}{closing}"


def _items(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value
