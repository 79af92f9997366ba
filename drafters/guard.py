"""Calls into a drafter, which may be anybody's code: whatever it does wrong ends in one DraftError that names it."""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from drafters.base import Drafter, DraftError, DraftView, checked
from suite.decoding.state import State, Visit
from suite.errors import first_line

LIMIT_S = 30.0
"""How long a drafter may take for one proposal [s]; of no policy or grid, so that no result depends on it."""


class DraftTimeoutError(DraftError):
    """A drafter took longer than LIMIT_S."""


def begin(drafter: Drafter, future: Sequence[Visit]) -> None:
    """Tell a drafter that a prompt begins. `future`, the baseline's visits, is withheld unless the drafter needs it."""
    with _guarded(drafter, "start"):
        drafter.start(future if drafter.needs_future else ())


def proposals(drafter: Drafter, view: DraftView, rows: int, vocab_size: int) -> list[State]:
    """At most `rows` states that the drafter proposes. Raises DraftError on all that is not legal."""
    with _guarded(drafter, "propose"):
        return checked(drafter, drafter.propose(view, rows), rows, view, vocab_size)


@contextmanager
def _guarded(drafter: Drafter, call: str) -> Iterator[None]:
    try:
        with _limited(LIMIT_S):
            yield
    except DraftError:
        raise
    except _Late:
        raise DraftTimeoutError(f"drafter {drafter.name} was not done with {call} after {LIMIT_S:g} s") from None
    except (Exception, SystemExit) as error:
        kind, said = type(error).__name__, first_line(error)
        raise DraftError(f"drafter {drafter.name} raised {kind} in {call}" + f": {said}" * (said != kind)) from error


class _Late(BaseException):
    """No Exception: drafters catch those."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise _Late in what takes longer. Does nothing outside the main thread, where no signal arrives.

    The alarm rings again every second, for an exception that meets a destructor is lost.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: object) -> None:
        raise _Late

    handler = signal.signal(signal.SIGALRM, ring)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)
