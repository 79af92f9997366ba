"""How each cell of a grid stands: from the results, from what was submitted and from one look at the queue."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from slurm import queue
from slurm.ledger import Array, Submission, submissions
from slurm.queue import Job, Queue, QueueError
from suite import deaths
from suite.cells import Bundle
from suite.store import Census, Store


class State(StrEnum):
    """`lost`: was submitted, is not in the queue, has no result and no failure. `unknown`: Slurm does not answer."""

    DONE = "done"
    RUNNING = "running"
    PENDING = "pending"
    FAILED = "failed"
    LOST = "lost"
    UNKNOWN = "unknown"
    MISSING = "missing"


@dataclass(frozen=True)
class Place:
    """Where a bundle was submitted: the job `index` of an array."""

    submission: Submission
    array: Array
    index: int


@dataclass
class Survey:
    """`states`: of every cell, by its id. `fault`: why the queue is not known, if it is not."""

    store: Store
    census: Census
    queue: Queue | None
    fault: str
    submissions: list[Submission]
    states: dict[str, State] = field(default_factory=dict)
    places: dict[str, list[Place]] = field(default_factory=dict)

    def job(self, place: Place) -> Job | None:
        return self.queue.get((place.array.name, place.index)) if self.queue else None

    def live(self, bundle: Bundle) -> list[Job]:
        """The jobs that are at a bundle or will be."""
        jobs = map(self.job, self.places.get(bundle.id, []))
        return [job for job in jobs if job and job.live]

    def of(self, bundle: Bundle, *states: State) -> list[str]:
        """The ids of the bundle's cells that are in one of these states."""
        return [cell.id for cell in bundle.cells if self.states[cell.id] in states]


def survey(bundles: Sequence[Bundle], store: Store) -> Survey:
    """Raises UserError when a submission's file is damaged."""
    census = store.census()
    known = submissions(store.root)
    unfinished = {bundle.id for bundle in bundles if any(cell.id not in census.done for cell in bundle.cells)}
    places: dict[str, list[Place]] = {}
    for submission in known:
        for array in submission.arrays:
            for index, bundle_id in enumerate(array.bundles):
                if bundle_id in unfinished:
                    places.setdefault(bundle_id, []).append(Place(submission, array, index))
    names = dict.fromkeys(place.array.name for found in places.values() for place in found)
    try:
        jobs, fault = queue.look(names), ""
    except QueueError as error:
        jobs, fault = None, str(error)
    found = Survey(store, census, jobs, fault, known, places=places)
    for bundle in bundles:
        found.states.update(_states(bundle, found) if bundle.id in unfinished else _done(bundle))
    return found


def _done(bundle: Bundle) -> Iterator[tuple[str, State]]:
    return ((cell.id, State.DONE) for cell in bundle.cells)


def _states(bundle: Bundle, found: Survey) -> Iterator[tuple[str, State]]:
    places, live = found.places.get(bundle.id, []), found.live(bundle)
    died = found.store.deaths(bundle) if bundle.id in found.census.begun else {}

    def failed(cell_id: str) -> bool:
        """In its last submission. One that failed before that was tried again, and lost then."""
        if died.get(cell_id, 0) >= deaths.LIMIT:
            return True
        since = places[-1].submission.id if places else ""
        return cell_id in found.census.failed and found.store.failed_since(cell_id, since)

    if live:
        rest = State.RUNNING if any(job.working for job in live) else State.PENDING
    elif places and found.queue is None:
        rest = State.UNKNOWN
    else:
        rest = State.LOST if any(place.array.job for place in places) else State.MISSING
    baseline_failed = bundle.id not in found.census.done and failed(bundle.id)
    for cell in bundle.cells:
        if cell.id in found.census.done:
            yield cell.id, State.DONE
        elif rest in (State.LOST, State.MISSING) and (baseline_failed or failed(cell.id)):
            yield cell.id, State.FAILED
        else:
            yield cell.id, rest
