"""Files that appear whole or not at all: a temporary name in the same folder, fsync, then the name."""

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from suite.errors import UserError


def publish(path: Path, content: bytes) -> None:
    """Make `path` appear with all of `content`; a file that is there already stays."""
    with _temporary(path, content) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def replace_file(path: Path, content: bytes) -> None:
    """Make `path` hold `content`, whatever it held before."""
    with _temporary(path, content) as temporary:
        temporary.replace(path)


@contextmanager
def _temporary(path: Path, content: bytes) -> Iterator[Path]:
    """A hidden file beside `path` with all of `content` on the disk."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what a disk may do into one line for the user."""
    try:
        yield
    except OSError as error:
        reason = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
        raise UserError(f"cannot write {path}: {reason}; what was finished is safe, run again to go on") from error
