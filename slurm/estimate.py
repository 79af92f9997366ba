"""How long bundles may take: their order before anything ran, and hours from what is done."""

from collections.abc import Iterable
from contextlib import suppress
from functools import cache

import tasks.harness
from suite.cells import Bundle
from suite.errors import UserError
from suite.store import Census, Store
from suite.targets import catalog
from tasks.catalog import CATALOG

UNKNOWN = 500
"""Prompts of a task whose number is not known here."""

Pace = dict[tuple[str, str], float]
"""(target, task) -> seconds that plain decoding takes for a prompt."""


def cost(bundle: Bundle, cells: int) -> float:
    """Grows with the time that so many cells of a bundle take: decodes times the target's size."""
    return cells * prompts(bundle) * _parameters(bundle.baseline.target, bundle.source)


def prompts(bundle: Bundle) -> int:
    return bundle.baseline.prompts or _prompts(bundle.baseline.task)


def pace(bundles: Iterable[Bundle], store: Store, census: Census) -> Pace:
    """From one finished baseline each."""
    found: Pace = {}
    for bundle in bundles:
        cell = bundle.baseline
        if cell.id in census.done and (cell.target, cell.task) not in found:
            with suppress(UserError):  # a damaged one is for `check` to tell
                samples = store.read(cell).samples
                found[cell.target, cell.task] = sum(one.prefill_s + one.decode_s for one in samples) / len(samples)
    return found


def hours(bundle: Bundle, cells: int, known: Pace) -> float | None:
    """Of so many cells, if each were as slow as the baseline."""
    seconds = known.get((bundle.baseline.target, bundle.baseline.task))
    return None if seconds is None else seconds * prompts(bundle) * cells / 3600


@cache
def _prompts(task: str) -> int:
    known = CATALOG.get(tasks.harness.facts(task).dataset)
    return known.rows["test"] if known else UNKNOWN


@cache
def _parameters(target: str, source: str) -> int:
    return max(1, catalog.spec(target, source).parameters)
