"""What was submitted, written beside the results before Slurm hears of it.

    results/<cluster>/<grid>/submissions/<id>/{submission.json, code/, logs/}

A job is known by the name of its array and its index there, so that the queue tells of it even if the submitter died
before it could write down Slurm's number.
"""

import json
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from suite import machine
from suite.errors import UserError
from suite.files import replace_file, writing
from suite.store import STAMP

SCHEMA = 1
ROOMS = (*machine.ROOMS, "slurm", "reports")


@dataclass(frozen=True)
class Array:
    """One job array: the ids of its bundles in the order of its jobs. `job`: Slurm's number, empty if not known."""

    name: str
    bundles: tuple[str, ...]
    job: str = ""


@dataclass(frozen=True)
class Submission:
    """`id` begins with the time it was made, as the names of failures do. `code`: the hash of what its jobs run."""

    root: Path
    id: str
    code: str
    arrays: tuple[Array, ...]
    report: str = ""

    @property
    def folder(self) -> Path:
        return self.root / "submissions" / self.id

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def log(self, array: Array, index: int) -> Path:
        """Where a job's errors go; the file may not be there yet."""
        one = len(array.bundles) == 1  # which submitit makes no array of
        return self.logs / (f"{array.job}_0_log.err" if one else f"{array.job}_{index}_0_log.err")

    def write(self) -> None:
        """Replace what is on the disk."""
        values = {"schema": SCHEMA, **{key: value for key, value in asdict(self).items() if key != "root"}}
        with writing(self.folder):
            self.logs.mkdir(parents=True, exist_ok=True)
            replace_file(self.folder / "submission.json", (json.dumps(values, indent=1) + "\n").encode())

    @property
    def code_folder(self) -> Path:
        return self.folder / "code"

    def snapshot(self) -> None:
        """Copy the code as it is now; the jobs run that, whatever becomes of the code here."""
        home = Path(machine.__file__).parent.parent
        with writing(self.code_folder):
            for room in ROOMS:
                shutil.copytree(home / room, self.code_folder / room, ignore=shutil.ignore_patterns("__pycache__"))

    def submitted(self, n: int, job: str) -> "Submission":
        """With Slurm's number of its array `n`."""
        arrays = (*self.arrays[:n], replace(self.arrays[n], job=job), *self.arrays[n + 1 :])
        return replace(self, arrays=arrays)


def new(root: Path, grid: str, code: str, arrays: list[tuple[str, ...]]) -> Submission:
    name = f"{datetime.now(UTC):{STAMP}.%f}-{uuid.uuid4().hex[:6]}"
    return Submission(root, name, code, tuple(Array(f"{grid}.{name}.{n}", ids) for n, ids in enumerate(arrays)))


def submissions(root: Path) -> list[Submission]:
    """The oldest first. Raises UserError on one that is damaged or of a newer schema."""
    return [_read(root, path) for path in sorted((root / "submissions").glob("*/submission.json"))]


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """One submitter at a time, so that two do not do work twice; nothing breaks without it. Raises UserError."""
    lock = root / "submissions" / "lock"
    with writing(lock):
        lock.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.mkdir()
        except FileExistsError:
            raise UserError(f"somebody is submitting this grid; if nobody is, remove the folder {lock}") from None
    try:
        yield
    finally:
        lock.rmdir()


def _read(root: Path, path: Path) -> Submission:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values.pop("schema") == SCHEMA:
            arrays = tuple(Array(one["name"], tuple(one["bundles"]), one["job"]) for one in values.pop("arrays"))
            return Submission(root, arrays=arrays, **values)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not a submission ({type(error).__name__}: {error}); remove its folder") from error
    raise UserError(f"{path}: written by another spotbench; upgrade this one")
