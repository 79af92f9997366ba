"""`spotbench plan`: what a grid holds, what of it is missing, and how long that may take."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import tasks.data
import tasks.harness
from suite import estimate
from suite.cells import Bundle
from suite.store import Store
from suite.targets import catalog
from suite.targets.fit import fit


@dataclass(frozen=True)
class Planned:
    """A bundle. `decodes`: prompts times methods. `done`: methods that are. `hours`: an estimate for the others."""

    id: str
    title: str
    methods: int
    prompts: int
    decodes: int
    done: int
    hours: float


def plan(bundles: Iterable[Bundle], store: Store) -> list[Planned]:
    """Raises UserError on a task's data with a broken manifest."""
    return [_planned(bundle, store) for bundle in bundles]


def missing(bundles: Iterable[Bundle]) -> Iterator[str]:
    """The data and the weights that are not on this machine, each with what gets it."""
    cells = [bundle.baseline for bundle in bundles]
    for task in dict.fromkeys(cell.task for cell in cells):
        facts = tasks.harness.facts(task)
        if splits := tasks.data.missing(facts.dataset, facts.splits):
            where = f"{' and '.join(splits)} of {facts.dataset}"
            yield f"data of {task}: no {where} in {tasks.data.home()}; {tasks.data.how_to_get(facts.dataset)}"
    sources = {bundle.baseline.target: bundle.source for bundle in bundles if bundle.baseline.device != "replay"}
    for target, source in sources.items():
        if get := fit(catalog.spec(target, source)).get:
            yield f"weights of {target}: {get}"


def _planned(bundle: Bundle, store: Store) -> Planned:
    left = [cell for cell in bundle.cells if not store.done(cell)]
    prompts = estimate.prompts(bundle)
    return Planned(
        id=bundle.id,
        title=bundle.title,
        methods=len(bundle.cells),
        prompts=prompts,
        decodes=prompts * len(bundle.cells),
        done=len(bundle.cells) - len(left),
        hours=round(estimate.seconds(bundle, left) / 3600, 3),
    )
