"""The rows of the leaderboard: every entry at every setting, its rank there, or why it has none."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from reports.entry import Budget, Entry, Result, Spread
from suite.check import DEGENERATE_SHARE
from suite.measure.stats import Interval, pooled_ratio

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One entry at one setting. `task`: empty for all tasks pooled.

    `rank`: by pass reduction, `speed_rank`: by speed-up; None where it is not ranked, and `why` and `speed_why` say
    why. `of_oracle`: its pooled reduction over the oracle's, if that is on the board.
    """

    entry: Entry
    task: str
    temperature: float
    rows: int
    prompts: int
    passes: float
    pass_reduction: Interval
    speedup: Spread | None
    of_oracle: float | None
    steps_per_pass: float
    draft_ms: float | None
    accuracy: float | None
    exact: int
    ties: int
    rank: int | None = None
    why: str = ""
    speed_rank: int | None = None
    speed_why: str = ""

    @property
    def setting(self) -> tuple[str, str, str, str, float, int]:
        """Rows of the same setting are ranked together."""
        fixed = self.entry.settings
        return fixed.target, fixed.context, fixed.rule, self.task, self.temperature, self.rows

    @property
    def is_bound(self) -> bool:
        """A reference line, never ranked."""
        return self.entry.card.kind == "bound"

    @property
    def trained(self) -> str:
        """Whether it was made for this target."""
        home = self.entry.card.home
        if not home:
            return "no training"
        return "home" if self.entry.settings.target in home.split(", ") else "transferred"


def rows(entries: Sequence[Entry]) -> list[Row]:
    """All rows, setting by setting (targets and rules in the order of the entries), the best first."""
    places = {key: n for n, key in reversed(list(enumerate(entry.key[:3] for entry in entries)))}
    found: dict[tuple[object, ...], list[Row]] = {}
    for entry in entries:
        for row in _rows(entry):
            found.setdefault(row.setting, []).append(row)
    return [
        row for setting in sorted(found, key=lambda at: (places[at[:3]], at[3:])) for row in _placed(found[setting])
    ]


def shared_ranks(intervals: Sequence[Interval | Spread]) -> list[int]:
    """The rank of each: by the lower bound (of equal ones by the upper), shared by all whose interval overlaps that of
    the first of their rank.

    As in a race, whoever follows three that share the first rank is the fourth.
    """
    order = sorted(range(len(intervals)), key=lambda n: (-intervals[n].low, -intervals[n].high))
    ranks = [0] * len(intervals)
    leader = 0
    for place, n in enumerate(order):
        if intervals[n].high < intervals[order[leader]].low:
            leader = place
        ranks[n] = leader + 1
    return ranks


def _rows(entry: Entry) -> Iterator[Row]:
    for result in entry.results:
        for budget in result.budgets:
            yield _row(entry, result.task, [(result, budget)], budget.speedup)
    for pooled in entry.pooled:
        yield _row(entry, "", entry.at(pooled.temperature, pooled.rows), pooled.speedup)


def _row(entry: Entry, task: str, of: Sequence[tuple[Result, Budget]], speedup: Spread | None) -> Row:
    temperature, rows = of[0][0].temperature, of[0][1].rows
    prompts = [len(budget.passes) for _, budget in of]
    verified = [sum(budget.passes) for _, budget in of]
    scores = [(result.accuracy, n) for (result, _), n in zip(of, prompts, strict=True) if result.accuracy is not None]
    return Row(
        entry=entry,
        task=task,
        temperature=temperature,
        rows=rows,
        prompts=sum(prompts),
        passes=sum(verified) / sum(prompts),
        pass_reduction=entry.reductions[task, temperature, rows],
        speedup=speedup,
        of_oracle=None,
        steps_per_pass=_mean([budget.steps_per_pass for _, budget in of], verified),
        draft_ms=_mean([budget.draft_ms or 0.0 for _, budget in of], verified) or None,
        accuracy=_mean([score for score, _ in scores], [n for _, n in scores]) if scores else None,
        exact=sum(budget.exact for _, budget in of),
        ties=sum(budget.ties for _, budget in of),
    )


def _mean(values: Sequence[float], weights: Sequence[int]) -> float:
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def _placed(of: Sequence[Row]) -> list[Row]:
    """The rows of one setting with their ranks, in order."""
    tasks = list(dict.fromkeys(result.task for row in of for result in row.entry.results))
    whole = [row for row in of if not _holes(row, tasks)] or list(of)
    prompts = max(row.prompts for row in of)
    traces = _commonest(_traces(row) for row in whole if row.prompts == prompts)
    machine = _commonest(row.entry.origin.machine for row in of if row.speedup)
    oracle = next((row for row in of if row.entry.drafter == "oracle"), None)
    judged = []
    for row in of:
        why = "" if row.is_bound else _why(row, tasks, prompts, traces)
        slow = why or ("" if row.is_bound else _why_not_timed(row, machine))
        judged.append(replace(row, why=why, speed_why=slow, of_oracle=_of(row, oracle)))
    fair = [row for row in judged if not row.is_bound]
    ranks = _ranks([row for row in fair if not row.why], lambda row: row.pass_reduction)
    speeds = _ranks([row for row in fair if not row.speed_why], lambda row: row.speedup)
    placed = [replace(row, rank=ranks.get(id(row)), speed_rank=speeds.get(id(row))) for row in judged]
    return sorted(placed, key=lambda row: (row.is_bound, bool(row.why), -row.pass_reduction.low, row.entry.drafter))


def _ranks(of: Sequence[Row], figure: Callable[[Row], Interval | Spread | None]) -> dict[int, int]:
    """The rank of each row, by its identity."""
    intervals = [x for row in of if (x := figure(row))]
    return {id(row): rank for row, rank in zip(of, shared_ranks(intervals), strict=True)}


def _why(row: Row, tasks: Sequence[str], prompts: int, traces: object) -> str:
    """Why a row is not ranked; empty if it is."""
    card, results = row.entry.card, [result for result, _ in _of_row(row)]
    if card.needs_future:
        return "reads the future: only bounds may"
    if card.split not in ("", "train"):
        return f"made from the {card.split} split: only the train split is allowed"
    if holes := _holes(row, tasks):
        return f"incomplete: lacks {', '.join(holes)}"
    if row.prompts < prompts:
        return f"incomplete: {row.prompts} of {prompts} prompts"
    if lossy := row.prompts - row.exact - row.ties:
        return f"lossy: {lossy} of {row.prompts} answers differ from the baseline's"
    if (bad := sum(result.degenerate for result in results)) > DEGENERATE_SHARE * row.prompts:
        return f"degenerate: {bad} of {row.prompts} answers are empty or repetitive"
    if _traces(row) != traces:
        where = "this was measured on an unlike machine" if not row.entry.replayed else "the others are of other ones"
        return f"other prompts, weights or answers: {where}"
    return ""


def _why_not_timed(row: Row, machine: str | None) -> str:
    """Why a row has no rank by speed-up."""
    if not row.speedup:
        return "not timed: replayed from traces"
    if row.entry.origin.machine != machine:
        return f"an unlike machine: {row.entry.origin.machine}; this ranking is of {machine}"
    return ""


def _of_row(row: Row) -> list[tuple[Result, Budget]]:
    return [one for one in row.entry.at(row.temperature, row.rows) if row.task in ("", one[0].task)]


def _holes(row: Row, tasks: Sequence[str]) -> list[str]:
    """Tasks of this setting that a pooled row lacks."""
    return [] if row.task else sorted(set(tasks) - {result.task for result, _ in _of_row(row)})


def _traces(row: Row) -> tuple[str, ...]:
    return tuple(sorted(result.trace for result, _ in _of_row(row)))


def _commonest(values: "Iterator[T]") -> T | None:
    """Ties: the first in order."""
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], str(value))) if counts else None


def _of(row: Row, oracle: Row | None) -> float | None:
    """Its pooled pass reduction over the oracle's at the same rows."""
    if oracle is None:
        return None
    mine, best = (
        pooled_ratio([n for r, _ in of for n in r.baseline_passes], [n for _, b in of for n in b.passes])
        for of in (_of_row(row), _of_row(oracle))
    )
    return mine / best
