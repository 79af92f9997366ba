"""`spotbench rescore`: score stored answers anew, after a change of the scoring, without decoding them again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import tasks.harness
from suite import machine, records
from suite.cells import Cell
from suite.errors import UserError
from suite.records import Scores
from suite.store import Finished, Store
from tasks.harness import Task


@dataclass(frozen=True)
class Rescored:
    """What became of a cell: the means of its metric, and how many answers are scored otherwise than before.

    The means are None where there is no answer, or no score.
    """

    cell: Cell
    before: float | None
    after: float | None
    changed: int


def rescore(
    store: Store, cells: Sequence[Cell], progress: Callable[[str, int, int], None] = lambda *_: None
) -> list[Rescored]:
    """Score the answers of every DONE cell with the task as it now is.

    Where that changes anything, the new scores are written beside the old ones. Raises UserError, before it writes
    anything of a cell, when its answers are to other questions, and when the task fails its self-check.
    """
    by_task: dict[str, list[Cell]] = {}
    for cell in cells:
        if store.done(cell):
            by_task.setdefault(cell.task, []).append(cell)
    found = []
    for name, its_cells in by_task.items():
        task = tasks.harness.load(name)
        task.self_check()
        asked = {request.doc_id: request.question for request in task.requests(lambda messages: "")}
        for n, cell in enumerate(its_cells):
            progress(f"scoring {name}", n, len(its_cells))
            found.append(_rescore(store, store.read(cell), task, asked))
        progress(f"scoring {name}", len(its_cells), len(its_cells))
    return found


def _rescore(store: Store, old: Finished, task: Task, asked: dict[int, str]) -> Rescored:
    answered = [sample for sample in old.samples if not sample.error]
    for sample in answered:
        if sample.question != asked.get(sample.doc_id):
            what = (
                f"its prompt {sample.doc_id} was another one" if sample.question else "it does not say what was asked"
            )
            raise UserError(f"{old.cell.id}: {what}, so it cannot be scored again; remove its folder and run again")
    scores = task.score_all([(sample.doc_id, sample.text) for sample in answered])
    changed = sum(sample.scores != new for sample, new in zip(answered, scores, strict=True))
    settings = old.manifest["settings"]
    if changed or (settings.get("task_version"), settings["metric"]) != (task.version, task.metric):
        new = Scores(
            schema=records.SCHEMA,
            cell_id=old.cell.id,
            task_version=task.version,
            metric=task.metric,
            scores={str(sample.doc_id): score for sample, score in zip(answered, scores, strict=True)},
            samples=old.result.files["samples.jsonl"]["sha256"],
            code=machine.code_hash(),
            versions=machine.versions(),
            when=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        store.rescore(old.cell, new)
    before = _mean([sample.scores for sample in answered], settings["metric"])
    return Rescored(old.cell, before, _mean(scores, task.metric), changed)


def _mean(scores: Sequence[dict[str, float]], metric: str) -> float | None:
    return sum(one[metric] for one in scores) / len(scores) if metric and scores else None
