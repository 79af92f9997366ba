"""Results on disk: the only place that knows the folder layout.

    results/<machine>/<grid>/<cell id>/{manifest.json, samples.jsonl, steps.jsonl, result.json, failures/*.json}
    results/<machine>/<grid>/partial/<bundle id>.<code>/<process>.jsonl      while a bundle runs

Finished files appear whole or not at all (temporary name, fsync, link: the first writer wins) and are never
written again. `result.json` comes last and means DONE.
"""

import errno
import glob
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from suite import records
from suite.cells import Bundle, Cell
from suite.errors import UserError
from suite.machine import code_hash
from suite.records import Failure, Manifest, Result, Sample, Step, Visit


@dataclass(frozen=True)
class Finished:
    """A DONE cell, read and verified."""

    cell: Cell
    manifest: dict[str, Any]
    samples: list[Sample]
    result: Result


@dataclass(frozen=True)
class Store:
    """The results of one grid on one machine."""

    root: Path

    def done(self, cell: Cell) -> bool:
        return (self.root / cell.id / "result.json").exists()

    def failed(self, cell: Cell) -> list[Failure]:
        """Its failed attempts, oldest first."""
        folder = self.root / cell.id / "failures"
        return [Failure(**_load(path)) for path in sorted(folder.glob("*.json"))]

    def read(self, cell: Cell) -> Finished:
        """Raises UserError when a file is damaged, missing, or of a newer schema."""
        folder = self.root / cell.id
        result = Result.from_json(_load(folder / "result.json"))
        for name, known in result.files.items():
            if not (folder / name).exists() or _sha256(folder / name) != known["sha256"]:
                raise UserError(f"{folder / name}: damaged or missing; remove the folder {folder.name} and run again")
        samples = [Sample.from_json(line) for line in _lines(folder / "samples.jsonl")]
        manifest = _load(folder / "manifest.json")
        return Finished(Cell.from_json(manifest["cell"]), manifest, samples, result)

    def append(self, bundle: Bundle, visit: Visit, process: str) -> None:
        """Add a visit to the partial file of `process`; it is on the disk when this returns."""
        path = self._partial(bundle) / f"{process}.jsonl"
        with _writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(records.as_json(visit)) + "\n")
                file.flush()
                os.fsync(file.fileno())

    def visits(self, bundle: Bundle) -> list[Visit]:
        """What earlier processes have done of a bundle, in any order; a torn last line is dropped."""
        return [
            Visit.from_json(line)
            for path in sorted(self._partial(bundle).glob("*.jsonl"))
            for line in _lines(path, torn=True)
        ]

    def attempts(self, bundle: Bundle) -> int:
        """How many processes have worked on an unfinished bundle."""
        return len(list(self._partial(bundle).glob("*.jsonl")))

    def finish(self, cell: Cell, manifest: Manifest, samples: list[Sample], steps: list[Step], metric: str) -> None:
        folder = self.root / cell.id
        with _writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _publish(folder / "samples.jsonl", _json_lines(samples))
            _publish(folder / "steps.jsonl", _json_lines(steps))
            _publish(folder / "manifest.json", _json(manifest))
            # Another process may have been first with any of these: the result describes what lies on the disk.
            lying = [Sample.from_json(line) for line in _lines(folder / "samples.jsonl")]
            names = ["samples.jsonl", "steps.jsonl", "manifest.json"]
            files = {name: {"lines": _count(folder / name), "sha256": _sha256(folder / name)} for name in names}
            _publish(
                folder / "result.json",
                _json(Result(records.SCHEMA, cell.id, records.summarise(lying, metric), files)),
            )

    def clear(self, bundle: Bundle) -> None:
        """Forget the partial files of a bundle whose cells are all done."""
        for folder in (self.root / "partial").glob(f"{glob.escape(bundle.id)}.*"):
            shutil.rmtree(folder, ignore_errors=True)

    def fail(self, cell: Cell, error: BaseException, traceback: str) -> None:
        now = datetime.now(UTC)
        failure = Failure(
            records.SCHEMA, cell.id, type(error).__name__, str(error), traceback, now.isoformat(timespec="seconds")
        )
        folder = self.root / cell.id / "failures"
        with _writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _publish(folder / f"{now:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}.json", _json(failure))

    def write_report(self, name: str, text: str) -> Path:
        """Write a derived file beside the cells, replacing an earlier one; it can be rebuilt at will."""
        path = self.root / name
        with _writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{name}.{uuid.uuid4().hex}")
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
        return path

    def _partial(self, bundle: Bundle) -> Path:
        # The code's hash keeps a cell from mixing what two versions of the code measured.
        return self.root / "partial" / f"{bundle.id}.{code_hash()}"


def _publish(path: Path, content: bytes) -> None:
    """Make `path` appear with all of `content`; a file that is there already stays."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn what a disk may do into one line for the user."""
    try:
        yield
    except OSError as error:
        reason = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
        raise UserError(f"cannot write {path}: {reason}; what was finished is safe, run again to go on") from error


def _load(path: Path) -> dict[str, Any]:
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        schema = int(values["schema"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not a result file ({error}); remove its folder and run again") from error
    if schema > records.SCHEMA:
        raise UserError(f"{path}: written by schema {schema}, this spotbench reads up to {records.SCHEMA}; upgrade it")
    return values


def _lines(path: Path, torn: bool = False) -> list[dict[str, Any]]:
    lines = path.read_bytes().split(b"\n")
    return [json.loads(line) for line in (lines[:-1] if torn else lines) if line]


def _json(record: Any) -> bytes:
    return (json.dumps(records.as_json(record), indent=1, sort_keys=True) + "\n").encode()


def _json_lines(rows: list[Any]) -> bytes:
    return "".join(json.dumps(records.as_json(row)) + "\n" for row in rows).encode()


def _count(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
