"""One drafter against every other at equal rows, prompt by prompt: does it need fewer passes?"""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from reports.tables import Column
from suite.measure.stats import Interval, ratio

CHAMPIONS = ("spot", "spot-sets")
NOT_RIVALS = ("none", "oracle", "perfect", "random")
"""The baseline, the bounds and the test double. Nor is the champion's uncoupled twin; those of rivals are."""


@dataclass(frozen=True)
class Duel:
    """Passes of the rival over passes of the champion, paired: above 1 the champion needs fewer.

    `pooled`: all tasks, with a 95 % bootstrap interval over prompts. `behind`: tasks whose interval lies below 1.
    """

    rival: str
    rows: int
    pooled: Interval
    worst: Interval
    worst_task: str
    behind: tuple[str, ...]


COLUMNS: list[Column[Duel]] = [
    Column("rival", lambda x: x.rival, left=True),
    Column("rows", lambda x: str(x.rows)),
    Column("all tasks", lambda x: f"{x.pooled.value:.3f} [{x.pooled.low:.3f}, {x.pooled.high:.3f}]"),
    Column("worst task", lambda x: f"{x.worst.value:.3f} [{x.worst.low:.3f}, {x.worst.high:.3f}]"),
    Column("which", lambda x: x.worst_task),
    Column("behind in", lambda x: ", ".join(x.behind) or "-"),
]
NOTE = (
    "passes of the rival / passes of the champion, geometric mean over prompts, paired, [95 % bootstrap interval]. "
    "behind in: tasks in which the champion needs more passes, the whole interval below 1."
)


def duels(part: pd.DataFrame, champion: str, least_rows: int = 3) -> Iterator[Duel]:
    """Against every other drafter of one setting, at every budget of `least_rows` or more that both have."""
    keys = ["task", "doc_id"]
    for rows, budget in part[part["rows"] >= least_rows].groupby("rows", sort=True):
        own = budget[budget["drafter"] == champion].set_index(keys)["passes"]
        for rival, other in budget.groupby("drafter", sort=False):
            if rival in (champion, f"{champion}-uncoupled", *NOT_RIVALS) or own.empty:
                continue
            both = pd.concat([own, other.set_index(keys)["passes"]], axis=1, keys=["own", "rival"], join="inner")
            tasks = [str(task) for task, _ in both.index]
            by_task = {
                str(task): ratio(x["rival"].tolist(), x["own"].tolist()) for task, x in both.groupby("task", sort=False)
            }
            worst = min(by_task, key=lambda task: by_task[task].value)
            yield Duel(
                rival=str(rival),
                rows=int(str(rows)),
                pooled=ratio(both["rival"].tolist(), both["own"].tolist(), tasks),
                worst=by_task[worst],
                worst_task=worst,
                behind=tuple(task for task, x in by_task.items() if x.high < 1),
            )
