"""Put a data set into the data folder, from the Hugging Face hub or from a file, and note where it came from."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from suite.errors import UserError, first_line
from suite.files import replace_file, writing
from tasks import data
from tasks.catalog import DataSet, known
from tasks.data import FILE, MANIFEST, Row, Split


def get(name: str) -> dict[str, Split]:
    """Fetch every split from the hub, check it and put it in the folder.

    Raises UserError without network, or when the hub has something else.
    """
    wanted = known(name)
    if not wanted.hub:
        raise UserError(f"{name} is not on the Hugging Face hub; {data.how_to_get(name)}")
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError

    try:
        snapshot = huggingface_hub.snapshot_download(
            wanted.hub, repo_type="dataset", revision=wanted.revision, allow_patterns=list(wanted.files.values())
        )
    except (OSError, HfHubHTTPError) as error:
        raise UserError(
            f"{name}: cannot fetch {wanted.hub} from the Hugging Face hub ({first_line(error)}); run this on a machine "
            f"with network and copy {data.home() / name}, or: spotbench data add {name} FILE"
        ) from error
    files = {split: Path(snapshot) / file for split, file in wanted.files.items()}
    rows = {split: _checked(name, wanted, split, _read(file), partial=False) for split, file in files.items()}
    sources = {split: f"{wanted.hub}/{file}" for split, file in wanted.files.items()}
    return {
        split: _write(name, wanted, split, found, sources[split], Path(snapshot).name) for split, found in rows.items()
    }


def add(name: str, file: Path, split: str = "test", partial: bool = False) -> Split:
    """Check a file of the data set's own format (jsonl, json, either with .gz, or parquet) and put it in the folder.

    `partial`: it may have fewer rows than published; the manifest and the task's version say so.
    Raises UserError on a file that is not this split of this data set.
    """
    wanted = known(name)
    if split not in wanted.rows:
        raise UserError(f"--split {split}: {name} has {' and '.join(wanted.rows)}")
    return _write(name, wanted, split, _checked(name, wanted, split, _read(file), partial), file.name)


def _checked(name: str, wanted: DataSet, split: str, rows: list[Any], partial: bool) -> list[Row]:
    """The fields that count of each row. Raises UserError on rows that are not those of the data set."""
    published = wanted.rows[split]
    for n, row in enumerate(rows):
        if missing := [field for field in wanted.fields if not isinstance(row, dict) or field not in row]:
            raise UserError(f"row {n + 1} has no field {missing[0]!r}; {name} has {', '.join(wanted.fields)}")
    if len(rows) > published or not rows or (len(rows) < published and not partial):
        mend = "; --partial takes a part of it on purpose" if 0 < len(rows) < published else ""
        raise UserError(f"{len(rows)} rows, but the {split} split of {name} has {published}{mend}")
    keep = (*wanted.fields, *wanted.optional)
    return [{field: _bare(row[field]) for field in keep if field in row} for row in rows]


def _bare(value: Any) -> Any:
    """Without the nulls that Parquet fills into objects, so that each format of a data set gives the same lines."""
    if isinstance(value, dict):
        return {key: _bare(one) for key, one in value.items() if one is not None}
    return [_bare(one) for one in value] if isinstance(value, list) else value


def _write(name: str, wanted: DataSet, split: str, rows: Iterable[Row], source: str, revision: str = "") -> Split:
    folder, lines = data.home() / name, list(rows)
    content = data.render(lines)
    one = Split(len(lines), data.sha256(content), source, revision, partial=len(lines) < wanted.rows[split])
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / FILE.format(split), content)
        # Last, so that a kill in between leaves a file that is refused, not one that is taken for another.
        replace_file(folder / MANIFEST, data.manifest(_others(name) | {split: one}, wanted.licence))
    return one


def _others(name: str) -> dict[str, Split]:
    try:
        return data.present(name)
    except UserError:  # a broken manifest, which this one replaces
        return {}


def _read(file: Path) -> list[Any]:
    """Raises UserError on what is no list of rows."""
    try:
        if file.suffix == ".parquet":
            import pyarrow.parquet

            return list(pyarrow.parquet.read_table(file).to_pylist())
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        kind = file.with_suffix("").suffix if file.suffix == ".gz" else file.suffix
        if kind == ".jsonl":
            return data.parse(content)
        if kind == ".json" and isinstance(rows := json.loads(content), list):
            return rows
    except (OSError, EOFError, ValueError) as error:  # Arrow's errors are among them
        raise UserError(f"{file}: cannot be read ({first_line(error)})") from error
    raise UserError(f"{file}: no list of rows; give .jsonl, .json, either with .gz, or .parquet")
