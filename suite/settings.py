"""Files that people write, TOML checked by pydantic: every mistake is one line that names file, key and mend."""

import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from suite.errors import UserError

M = TypeVar("M", bound=BaseModel)


def find(kind: str, shipped: dict[str, Path], name_or_path: str) -> Path:
    """A shipped file by name, or any by path. Raises UserError when there is none."""
    path = shipped.get(name_or_path) or Path(name_or_path)
    if not os.path.isfile(path):
        raise UserError(f"no {kind} {name_or_path!r}; shipped: {', '.join(shipped)}; or the path of a TOML file")
    return path


def read(path: Path, model: type[M], inner: type[BaseModel] | None = None) -> M:
    """`inner`: the model of its tables. Raises UserError."""
    try:
        return model.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not TOML ({error})") from error
    except ValidationError as error:
        raise UserError(f"{path}: {explain(error, model.model_fields, inner.model_fields if inner else ())}") from error


def explain(error: ValidationError, keys: Iterable[str], inner: Iterable[str] = ()) -> str:
    """The worst fault of a file in one line: a key that is none may be why another is missing.

    `keys`: the valid ones; `inner`: those of its tables.
    """
    fault = min(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    key = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"unknown key {key!r}; valid keys: {', '.join(inner if len(fault['loc']) > 1 else keys)}"
    if fault["type"] == "missing":
        return f"key {key!r} is missing; add it"
    if fault["type"] == "value_error":  # a UserError of the model, which says it all
        return ": ".join(filter(None, [key, fault["msg"].removeprefix("Value error, ")]))
    return f"{key}: {fault['msg']} (got {fault['input']!r})"
