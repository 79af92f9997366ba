"""Results on disk: the only place that knows the folder layout.

    results/<machine>/<grid>/<cell id>/{manifest.json, samples.jsonl, steps.jsonl, result.json, failures/*.json}
    results/<machine>/<grid>/<cell id>/scores/<number>.json                  later scores, which count; the last one
    results/<machine>/<grid>/partial/<bundle id>.<code>/<process>.{jsonl, at}      while a bundle runs
    results/<machine>/<grid>/{index.html, report.md, report.csv, claims.md, figures/, paper/, frame.parquet, wandb/}
                                                                             made anew from the cells

Finished files appear whole or not at all (temporary name, fsync, link: the first writer wins) and are never
written again. `manifest.json` comes first, so that leftovers tell what they are of; `result.json` comes last
and means DONE.
"""

import glob
import hashlib
import json
import os
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from suite import deaths, records
from suite.cells import Bundle, Cell
from suite.errors import UserError
from suite.files import publish, replace_file, writing
from suite.machine import code_hash
from suite.records import Failure, Manifest, Result, Sample, Scores, Step, Visit

T = TypeVar("T")
STAMP = "%Y%m%dT%H%M%S"
"""How names begin that sort by time."""
CONTENT = ("manifest.json", "samples.jsonl", "steps.jsonl")
"""What `result.json` vouches for."""


@dataclass(frozen=True)
class Finished:
    """A DONE cell, read and verified.

    After a re-scoring, the samples' scores and the manifest's metric and task version are the last one's, and the
    manifest's setting `rescored` tells when that was and which version it was measured with.
    """

    cell: Cell
    manifest: dict[str, Any]
    samples: list[Sample]
    result: Result


@dataclass(frozen=True)
class Census:
    """One look at a store: the cells that are DONE, with the time they became so [s since 1970]; those with failed
    attempts; and the bundles that processes have begun with this code."""

    done: dict[str, float]
    failed: frozenset[str]
    begun: frozenset[str]


@dataclass(frozen=True)
class Store:
    """The results of one grid on one machine."""

    root: Path

    def done(self, cell: Cell) -> bool:
        return (self.root / cell.id / "result.json").exists()

    def finished(self) -> list[str]:
        """The ids of the cells that are DONE, whatever plan they are of."""
        return sorted(path.parent.name for path in self.root.glob("*/result.json"))

    def census(self) -> Census:
        """Of all its cells at once, whatever plan they are of."""
        done: dict[str, float] = {}
        failed: set[str] = set()
        for folder in _names(self.root):
            try:
                done[folder] = os.stat(f"{self.root}/{folder}/result.json").st_mtime
            except OSError:
                if os.path.isdir(f"{self.root}/{folder}/failures"):
                    failed.add(folder)
        code = f".{code_hash()}"
        begun = frozenset(name.removesuffix(code) for name in _names(self.root / "partial") if name.endswith(code))
        return Census(done, frozenset(failed), begun)

    def cell(self, cell_id: str) -> Cell:
        """What an id stands for. Raises UserError when its manifest is damaged or missing."""
        return _load(self.root / cell_id / "manifest.json", lambda values: Cell.from_json(values["cell"]))

    def failed(self, cell: Cell) -> list[Failure]:
        """Its failed attempts, oldest first."""
        folder = self.root / cell.id / "failures"
        return [_load(path, lambda values: Failure(**values)) for path in sorted(folder.glob("*.json"))]

    def failed_since(self, cell_id: str, stamp: str) -> bool:
        """Whether an attempt failed at the time that `stamp` begins with, or later; with an empty one: ever."""
        return any(name >= stamp for name in _names(self.root / cell_id / "failures") if name.endswith(".json"))

    def read(self, cell: Cell) -> Finished:
        """Raises UserError when a file is damaged, missing, or of a newer schema."""
        result, content = self._content(cell)
        manifest = _parse(self.root / cell.id / "manifest.json", content["manifest.json"], dict)
        samples = [Sample.from_json(json.loads(line)) for line in content["samples.jsonl"].splitlines()]
        if numbers := self._rescorings(cell):
            path = self.root / cell.id / "scores" / f"{numbers[-1]}.json"
            manifest, samples = _rescored(path, manifest, samples, result)
        return Finished(Cell.from_json(manifest["cell"]), manifest, samples, result)

    def steps(self, cell: Cell) -> list[Step]:
        """The passes of the prompts whose steps are kept. Raises UserError as `read` does."""
        _, content = self._content(cell)
        return [Step(**json.loads(line)) for line in content["steps.jsonl"].splitlines()]

    def stamp(self, cell: Cell) -> str:
        """What changes when a file of the cell does; empty while it is not DONE."""
        folder = str(self.root / cell.id)
        try:
            found = [os.stat(f"{folder}/{name}") for name in ("result.json", *CONTENT)]
        except FileNotFoundError:
            return ""
        files = "-".join(f"{one.st_mtime_ns:x}.{one.st_size:x}" for one in found)
        return f"{files}-{len(self._rescorings(cell))}"

    def _content(self, cell: Cell) -> tuple[Result, dict[str, bytes]]:
        """The result of a cell and the files that it vouches for."""
        folder = self.root / cell.id
        result = _load(folder / "result.json", Result.from_json)
        if result.cell_id != cell.id:
            raise UserError(f"{folder}: holds the result of {result.cell_id}; remove the folder and run again")
        content = {}
        for name in CONTENT:
            path = folder / name
            content[name] = path.read_bytes() if path.exists() else b""
            if result.files.get(name, {}).get("sha256") != hashlib.sha256(content[name]).hexdigest():
                raise UserError(f"{path}: damaged or missing; remove the folder {folder.name} and run again")
        return result, content

    def rescore(self, cell: Cell, scores: Scores) -> None:
        """Publish scores that count from now on; earlier ones stay beside them."""
        folder = self.root / cell.id / "scores"
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            publish(folder / f"{max(self._rescorings(cell), default=0) + 1}.json", _json(scores))

    def _rescorings(self, cell: Cell) -> list[int]:
        return sorted(int(path.stem) for path in (self.root / cell.id / "scores").glob("*.json") if path.stem.isdigit())

    def append(self, bundle: Bundle, visit: Visit, process: str) -> None:
        """Add a visit to the partial file of `process`; it is on the disk when this returns."""
        path = self._partial(bundle) / f"{process}.jsonl"
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(records.as_json(visit)) + "\n")
                file.flush()
                os.fsync(file.fileno())

    def visits(self, bundle: Bundle) -> list[Visit]:
        """What earlier processes have done of a bundle, in any order."""
        return [visit for path in sorted(self._partial(bundle).glob("*.jsonl")) for visit in _whole_visits(path)]

    def attempts(self, bundle: Bundle) -> int:
        """How many processes have worked on an unfinished bundle."""
        return len(list(self._partial(bundle).glob("*.jsonl")))

    def watch(self, bundle: Bundle, process: str) -> AbstractContextManager[deaths.At]:
        """Around the work of `process` on a bundle, which tells what it yields the cells it is at."""
        return deaths.watched(self._partial(bundle) / f"{process}.at")

    def last_seen(self, bundle: Bundle) -> dict[str, list[str]]:
        """The ids of the cells of an unfinished bundle that processes died at, or are at now, by their names."""
        return deaths.last_seen(self._partial(bundle))

    def deaths(self, bundle: Bundle) -> Counter[str]:
        """How many processes died at each cell of an unfinished bundle, by the cell's id."""
        return Counter(cell for cells in self.last_seen(bundle).values() for cell in cells)

    def forget_deaths(self, bundle: Bundle, cells: Collection[str], but: str = "") -> None:
        """Give cells, by their ids, another chance; what `but`, a process that still lives, is at stays known."""
        deaths.forget(self._partial(bundle), cells, but)

    def finish(self, cell: Cell, manifest: Manifest, samples: list[Sample], steps: list[Step], metric: str) -> None:
        """Publish what a cell came to, and with that make it DONE."""
        folder = self.root / cell.id
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if not self.done(cell) and _foreign(folder / "manifest.json", manifest):
                _empty(folder)
            publish(folder / "manifest.json", _json(manifest))
            publish(folder / "samples.jsonl", _json_lines(samples))
            publish(folder / "steps.jsonl", _json_lines(steps))
            # Another process may have been first with any of these: the result describes what lies on the disk.
            summary = records.summarise(_samples(folder), metric)
            files = {name: {"lines": _count(folder / name), "sha256": _sha256(folder / name)} for name in CONTENT}
            publish(folder / "result.json", _json(Result(records.SCHEMA, cell.id, summary, files)))

    def clear(self, bundle: Bundle) -> None:
        """Forget the partial files of a bundle whose cells are all done, and what killed processes left in them."""
        for folder in (self.root / "partial").glob(f"{glob.escape(bundle.id)}.*"):
            shutil.rmtree(folder, ignore_errors=True)
        for cell in bundle.cells:
            for temporary in (self.root / cell.id).glob(".*"):
                temporary.unlink(missing_ok=True)

    def fail(self, cell: Cell, error: BaseException, traceback: str) -> None:
        now = datetime.now(UTC)
        failure = Failure(
            records.SCHEMA, cell.id, type(error).__name__, str(error), traceback, now.isoformat(timespec="seconds")
        )
        folder = self.root / cell.id / "failures"
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            publish(folder / f"{now:{STAMP}.%f}-{uuid.uuid4().hex[:6]}.json", _json(failure))

    def write_report(self, name: str, content: str | bytes) -> Path:
        """Write a derived file beside the cells, replacing an earlier one; it can be rebuilt at will."""
        path = self.root / name
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, content.encode() if isinstance(content, str) else content)
        return path

    def clear_report(self, folder: str, keep: Collection[str]) -> None:
        """Remove what an earlier report wrote to a folder and this one did not."""
        for path in (self.root / folder).glob("*"):
            if path.name not in keep:
                path.unlink(missing_ok=True)

    def _partial(self, bundle: Bundle) -> Path:
        # The code's hash keeps a cell from mixing what two versions of the code measured.
        return self.root / "partial" / f"{bundle.id}.{code_hash()}"


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def stores(results: Path, grid: str = "*") -> list[Store]:
    """The results of every machine's grids of this name; `*`: of all grids."""
    return [Store(folder) for folder in sorted(results.glob(f"*/{grid}")) if folder.is_dir()]


def _foreign(path: Path, manifest: Manifest) -> bool:
    """Whether there is a manifest at `path`, of other code or settings (the target's weights are among them)."""
    try:
        lying = json.loads(path.read_bytes())
        return bool((lying["code"], lying["settings"]) != (manifest.code, manifest.settings))
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError):
        return True


def _empty(folder: Path) -> None:
    """Remove what a killed process left of a cell; the failures are in a folder of their own and stay."""
    for path in folder.iterdir():
        if path.is_file():
            path.unlink(missing_ok=True)


def _load(path: Path, parse: Callable[[dict[str, Any]], T]) -> T:
    try:
        return _parse(path, path.read_bytes(), parse)
    except OSError as error:
        raise UserError(
            f"{path}: not a result file ({type(error).__name__}: {error}); remove its folder and run again"
        ) from error


def _parse(path: Path, content: bytes, parse: Callable[[dict[str, Any]], T]) -> T:
    try:
        values: dict[str, Any] = json.loads(content)
        if (schema := int(values["schema"])) <= records.SCHEMA:
            return parse(values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"{path}: not a result file ({reason}); remove its folder and run again") from error
    raise UserError(f"{path}: written by schema {schema}, this spotbench reads up to {records.SCHEMA}; upgrade it")


def _rescored(
    path: Path, manifest: dict[str, Any], samples: list[Sample], result: Result
) -> tuple[dict[str, Any], list[Sample]]:
    new = _load(path, lambda values: Scores(**values))
    answered = {str(sample.doc_id) for sample in samples if not sample.error}
    asked = (result.cell_id, result.files["samples.jsonl"]["sha256"], answered)
    if (new.cell_id, new.samples, set(new.scores)) != asked:
        raise UserError(f"{path}: scores of other answers; remove it and run spotbench rescore")
    told = {
        "metric": new.metric,
        "task_version": new.task_version,
        "rescored": {"when": new.when, "measured_with": manifest["settings"].get("task_version", "")},
    }
    scored = [sample if sample.error else replace(sample, scores=new.scores[str(sample.doc_id)]) for sample in samples]
    return manifest | {"settings": manifest["settings"] | told}, scored


def _samples(folder: Path) -> list[Sample]:
    return [Sample.from_json(json.loads(line)) for line in (folder / "samples.jsonl").read_bytes().splitlines()]


def _whole_visits(path: Path) -> Iterator[Visit]:
    """The visits of a partial file. What a kill or a full disk left torn is dropped: its prompt is decoded again."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:  # another process has just finished the bundle
        return
    for line in lines:
        try:
            yield Visit.from_json(json.loads(line))
        except (ValueError, KeyError, TypeError):
            continue


def _json(record: Any) -> bytes:
    return (json.dumps(records.as_json(record), indent=1, sort_keys=True) + "\n").encode()


def _json_lines(rows: list[Any]) -> bytes:
    return "".join(json.dumps(records.as_json(row)) + "\n" for row in rows).encode()


def _count(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def _sha256(path: Path) -> str:
    """The empty string if there is no such file."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
