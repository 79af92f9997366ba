"""The leaderboard: entries as one HTML file that needs no network, and whose table needs no scripts.

Everything that comes from an entry goes through Jinja's escaping or, as JSON, through `tojson`; the script only ever
makes text of it. The page's own style and script are the only markup that is taken as it is.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reports import board
from reports.board import Row
from reports.entry import Entry
from suite.errors import UserError

TEMPLATES = Path(__file__).parent / "templates"
USUAL_ROWS = 9
COLUMNS = (
    "entry", "task", "temperature", "rows", "prompts", "passes", "reduction", "reduction_low", "reduction_high",
    "speedup", "speedup_low", "speedup_high", "of_oracle", "steps_per_pass", "draft_ms", "accuracy", "exact", "ties",
    "rank", "why", "speed_rank", "speed_why",
)  # fmt: skip
"""Of the rows in the page's data."""


def render(entries: Sequence[Entry]) -> str:
    """The page. Raises UserError where there is no entry."""
    if not entries:
        raise UserError("no entries; spotbench leaderboard add GRID makes some")
    entries = sorted(entries, key=lambda entry: (*_order(entry, entries), entry.drafter))
    rows = board.rows(entries)
    usual = _usual(rows)
    shared = Counter((row.setting, row.rank) for row in rows)
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    return environment.get_template("leaderboard.html").render(
        style=_own("leaderboard.css"),
        script=_own("leaderboard.js"),
        data=_data(entries, rows, usual),
        entries=entries,
        targets=list(dict.fromkeys(entry.settings.target for entry in entries)),
        all_tiny=all(entry.tiny for entry in entries),
        any_tiny=any(entry.tiny for entry in entries),
        date=max(entry.origin.date for entry in entries),
        usual=usual,
        shown=[(row, shared[row.setting, row.rank] > 1) for row in rows if not row.task and row.rows == usual],
    )


def _own(name: str) -> Markup:
    """A file of this project, as it is."""
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))


def _order(entry: Entry, entries: Sequence[Entry]) -> tuple[bool, str, str, str]:
    """Targets that something was trained for come first: there the drafters are at home."""
    homes = {home for other in entries if other.card.kind == "learned" for home in other.card.home.split(", ")}
    settings = entry.settings
    return settings.target not in homes, settings.target, settings.context, settings.rule


def _usual(rows: Sequence[Row]) -> int:
    """The budget that is shown first."""
    return min({row.rows for row in rows}, key=lambda n: (abs(n - USUAL_ROWS), n))


def _data(entries: Sequence[Entry], rows: Sequence[Row], usual: int) -> dict[str, Any]:
    where = {id(entry): n for n, entry in enumerate(entries)}
    return {
        "usual": usual,
        "columns": COLUMNS,
        "rows": [_values(where[id(row.entry)], row) for row in rows],
        "entries": [_facts(entry, row) for entry, row in _with_a_row(entries, rows)],
    }


def _with_a_row(entries: Sequence[Entry], rows: Sequence[Row]) -> list[tuple[Entry, Row]]:
    first = {id(row.entry): row for row in reversed(rows)}
    return [(entry, first[id(entry)]) for entry in entries]


def _values(entry: int, row: Row) -> list[Any]:
    """In the order of COLUMNS."""
    reduced, speed = row.pass_reduction, row.speedup
    return [
        entry, row.task, row.temperature, row.rows, row.prompts, row.passes,
        reduced.value, reduced.low, reduced.high, *(speed or (None, None, None)),
        _brief(row.of_oracle), _brief(row.steps_per_pass), _brief(row.draft_ms), row.accuracy, row.exact, row.ties,
        row.rank, row.why, row.speed_rank, row.speed_why,
    ]  # fmt: skip


def _brief(value: float | None) -> float | None:
    """Enough digits to be read and sorted; figures that tables have too keep all of theirs."""
    return None if value is None else round(value, 4)


def _facts(entry: Entry, row: Row) -> dict[str, Any]:
    """What a row's details show of its entry."""
    return {
        "drafter": entry.drafter,
        "trained": row.trained,
        "card": entry.card.model_dump(),
        "code": entry.code,
        "weights": entry.weights,
        "tiny": entry.tiny,
        "origin": entry.origin.model_dump(),
        "replayed": entry.replayed,
        **entry.settings.model_dump(),
        "results": [
            {
                "task": result.task,
                "temperature": result.temperature,
                "trace": result.trace,
                "baseline": result.baseline_passes,
                "passes": {budget.rows: budget.passes for budget in result.budgets},
            }
            for result in entry.results
        ],
        "steps": entry.steps.model_dump() if entry.steps else None,
    }
