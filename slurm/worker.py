"""What a job runs: one bundle with the code of `spotbench run`, or the report. It writes files and returns nothing."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import FrameType

from submitit.core.utils import UncompletedJobError
from submitit.helpers import DelayedSubmission

from suite import deaths
from suite.cells import Bundle
from suite.errors import UserError
from suite.grid import Grid
from suite.machine import code_hash
from suite.store import Store


@dataclass
class Task:
    """One bundle as a job, which can be begun any number of times: all it knows besides is in the store.

    `traces`: where they lie, for replayed cells. `leave`: the ids of cells that are not to be run. `code`: the hash of
    what was submitted. `minutes`: the time limit. `stalled`: how many lives of it that came to that limit brought no
    prompt to an end.
    """

    bundle: Bundle
    store: Store
    allow_code_execution: bool
    traces: Path | None
    leave: frozenset[str]
    submission: str
    code: str
    minutes: int
    stalled: int = 0

    def __call__(self) -> None:
        """Raises UserError, submitit's UncompletedJobError, or RuntimeError when cells failed: the job fails then."""
        self._begun, self._had = time.monotonic(), self._got()
        # What failed since it was submitted did so in an earlier life of this job, and would again.
        since = {c.id for c in self.bundle.cells if self.store.failed_since(c.id, self.submission)}
        leave = self.leave | since
        try:
            with _ending_in_time():
                if code_hash() != self.code:
                    raise UserError(f"this job found code {code_hash()}, and {self.code} was submitted; submit again")
                self._run(leave)
        except (UserError, UncompletedJobError) as error:
            from suite.runner import fail

            for cell in self.bundle.cells:
                if cell.id not in leave and not self.store.done(cell):
                    fail(self.store, cell, error)
            raise
        missing = [c.id for c in self.bundle.cells if c.id not in self.leave and not self.store.done(c)]
        if missing:
            raise RuntimeError(f"{len(missing)} cells are not done: {', '.join(missing)}")

    def checkpoint(self) -> DelayedSubmission | None:
        """The next life; none if lives go by without a prompt. Everything else is on the disk already."""
        long = time.monotonic() - self._begun > 30 * self.minutes  # half its time, in seconds
        stalled = 0 if self._got() > self._had else self.stalled + long
        return DelayedSubmission(replace(self, stalled=stalled)) if stalled < deaths.LIMIT else None

    def _run(self, leave: frozenset[str]) -> None:
        from suite import replay, runner

        allow = self.allow_code_execution
        if self.traces is None:
            runner.run_bundle(self.bundle, self.store, allow, _tell, leave)
        else:
            replay.replay_bundle(self.bundle, self.store, self.traces, allow, _tell, leave)

    def _got(self) -> int:
        """Grows with every prompt and every cell."""
        return len(self.store.visits(self.bundle)) + sum(map(self.store.done, self.bundle.cells)) * 10**6


@dataclass(frozen=True)
class Report:
    """The report of a grid as a job."""

    grid: Grid
    store: Store

    def __call__(self) -> None:
        from reports import report

        path, _ = report.write(self.grid.name, self.grid.about, self.store, self.grid.cells())
        print(path)


class _Ended(BaseException):
    """Brings what a signal came to past every `except Exception`, which a drafter and those who call it have."""


@contextmanager
def _ending_in_time() -> Iterator[None]:
    """Around the work of a job that submitit has given its signal handlers.

    USR2 is the sign that time is up or that the job is preempted: submitit puts it back into the queue, and what it
    raises to end the process, or since it may not go on, comes out of here. SIGTERM without it is the sign that the
    job will be killed: nothing more is begun, for what a job does from then on is not what it does undisturbed, and its
    children have got the signal too. The job does not leave by itself, or a preempted one would not come back.
    """
    requeue, ignore = signal.getsignal(signal.SIGUSR2), signal.getsignal(signal.SIGTERM)
    assert callable(requeue)

    def on_usr2(number: int, frame: FrameType | None) -> None:
        try:
            requeue(number, frame)
        except (Exception, SystemExit) as error:
            raise _Ended from error

    def on_term(number: int, frame: FrameType | None) -> None:
        raise _Ended

    signal.signal(signal.SIGUSR2, on_usr2)
    signal.signal(signal.SIGTERM, on_term)
    try:
        try:
            yield
        except _Ended as ended:
            if ended.__cause__ is None:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                print("told to end; waiting for it", flush=True)
                while True:
                    signal.pause()
            raise
    except _Ended as ended:
        raise ended.__cause__ or ended from None
    finally:
        signal.signal(signal.SIGUSR2, requeue)
        signal.signal(signal.SIGTERM, ignore)


def _tell(what: str, done: int, total: int) -> None:
    """A line in the job's log."""
    print(f"{datetime.now():%H:%M:%S} {what}" + (f", prompt {done} of {total}" if total else ""), flush=True)
