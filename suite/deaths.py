"""What a process was at when it died: a file that only a death leaves behind."""

import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from suite.cells import Cell
from suite.files import writing

LIMIT = 3
"""How many processes a cell may kill, with no prompt of it done in between, before it is given up."""

At = Callable[..., None]
"""Called with the cells that are at work from here on."""


class GivenUpError(Exception):
    """A cell has killed its process too often."""


@contextmanager
def watched(path: Path) -> Iterator[At]:
    """While this lasts, `path` names the cells at work; call what it yields with them.

    The file outlives a process that exits at once, crashes or is killed. It does not outlive one that leaves by an
    exception, nor one that was sent SIGTERM, the sign that something outside ends it: then no cell is to blame.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)

    def at(*cells: Cell) -> None:
        # Without fsync: what is written outlives the process, and when the whole node dies no cell is to blame.
        line = "".join(f"{cell.id}\n" for cell in cells).encode()
        with writing(path):
            os.pwrite(file, line, 0)
            os.ftruncate(file, len(line))

    try:
        with _excused(path):
            yield at
    finally:
        os.close(file)
        path.unlink(missing_ok=True)


def last_seen(folder: Path) -> dict[str, list[str]]:
    """The ids of the cells that processes died at, or are at now, by their names."""
    found = {}
    for path in folder.glob("*.at"):
        try:
            found[path.stem] = path.read_text(encoding="utf-8").split()
        except FileNotFoundError:  # its process has just ended
            continue
    return found


def forget(folder: Path, cells: Collection[str], but: str = "") -> None:
    """As if no process had died at any of `cells`, ids; `but` this process, which still lives."""
    for process, at in last_seen(folder).items():
        if process != but and not set(at).isdisjoint(cells):
            (folder / f"{process}.at").unlink(missing_ok=True)


@contextmanager
def _excused(path: Path) -> Iterator[None]:
    """Remove `path` on SIGTERM, then do what would have been done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def excuse(number: int, frame: FrameType | None) -> None:
        path.unlink(missing_ok=True)
        if callable(before):
            before(number, frame)
        elif before == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    before = signal.signal(signal.SIGTERM, excuse)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
