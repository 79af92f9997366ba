"""Which drafters there are: the shipped ones, plug-ins of installed packages, and classes in a user's files."""

import hashlib
import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType

from drafters.base import _REGISTRY, Drafter
from suite.errors import UserError, first_line

GROUP = "spotbench.drafters"
"""The entry-point group in which a package offers drafters: `name = "module:Class"`."""


def names() -> list[str]:
    """The shipped drafters and the plug-ins that can be loaded."""
    return [*_REGISTRY, *plugins().classes]


def about(name: str) -> str:
    """The first sentence of a drafter's docstring."""
    doc = (type(make(name)).__doc__ or "").split("\n\n")[0]
    return " ".join(doc.split())


def known(name: str, file: str = "") -> str:
    """The name that a drafter's results go by, once it is loaded.

    A shipped drafter's own; `name@version` of a plug-in, which may be asked for without its version; and of
    `file.py:Class`, `Class@` and 8 digits of the file's sha256, so that a changed drafter has other results.

    Args:
        file: the `file.py:Class` that a name of the last kind stands for, should this process not know it yet.

    Raises UserError when there is none, or it cannot be loaded.
    """
    if name in _REGISTRY or name in _FILES:
        return name
    if re.fullmatch(r".+\.py:\w+", name):
        return _read(name)
    if file:
        if (found := _read(file)) != name:
            raise UserError(f"{file} has changed: it was {name} and is {found}; run again")
        return name
    if name.endswith(".py"):
        raise UserError(f"drafter {name!r}: say which class of the file, as in {name}:MyDrafter")
    found_plugins = plugins()
    for full in found_plugins.classes:
        if name in (full, full.rpartition("@")[0]):
            return full
    if name in found_plugins.broken:
        raise UserError(found_plugins.broken[name])
    raise UserError(f"unknown drafter {name!r}; known: {', '.join(names())}; or file.py:Class")


def uncoupled(name: str) -> bool:
    """Whether it is the twin of a shipped drafter that does not share the target's noise."""
    return name in _REGISTRY and name.endswith("-uncoupled")


def make(name: str, file: str = "") -> Drafter:
    """A fresh drafter. Arguments and errors are those of `known`, and what its class raises."""
    name = known(name, file)
    if name in _REGISTRY:
        return _REGISTRY[name]()
    found: Callable[[], Drafter] = _FILES[name].cls if name in _FILES else plugins().classes[name]
    drafter = found()
    drafter.name = name
    return drafter


def file_of(name: str) -> str:
    """The `file.py:Class`, with its whole path, that a result's name stands for; empty where it stands for none."""
    return _FILES[name].file if name in _FILES else ""


def new(path: Path) -> None:
    """Write a working drafter to begin with. Raises UserError when the file is there, or cannot be."""
    if path.suffix != ".py":
        raise UserError(f"{path}: a drafter's file ends in .py, as in my_drafter.py")
    template = Path(__file__).with_name("template.py").read_text(encoding="utf-8")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(template)
    except FileExistsError as error:
        raise UserError(f"{path} is there already, and stays as it is; name another file") from error
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


@dataclass(frozen=True)
class Plugins:
    """Drafters of installed packages, as `name@version`; and by name, in one line, those that cannot be used."""

    classes: dict[str, type[Drafter]]
    broken: dict[str, str]


def plugins() -> Plugins:
    """What other packages offer. One that is broken stops no other."""
    classes: dict[str, type[Drafter]] = {}
    broken: dict[str, str] = {}
    offered: dict[str, list[metadata.EntryPoint]] = {}
    for entry in metadata.entry_points(group=GROUP):
        offered.setdefault(entry.name, []).append(entry)
    for name, entries in offered.items():
        whose = " and ".join(_package(entry) for entry in entries)
        what = f"drafter {name!r} of {whose}"
        if name in _REGISTRY or len(entries) > 1:
            broken[name] = f"{what}: the name is taken; rename it there, or uninstall what you do not need"
            continue
        try:
            found = entries[0].load()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - anybody's code
            broken[name] = f"{what} cannot be loaded ({_told(error)}); mend or uninstall it"
            continue
        if fault := _unfit(found):
            broken[name] = f"{what}: {entries[0].value} {fault}"
        else:
            classes[f"{name}@{entries[0].dist.version if entries[0].dist else ''}"] = found
    return Plugins(classes, broken)


@dataclass(frozen=True)
class _Loaded:
    """A class of a file, and its `file.py:Class`."""

    file: str
    cls: type[Drafter]


_FILES: dict[str, _Loaded] = {}


def _read(name: str) -> str:
    """Load `file.py:Class`; the name its results go by."""
    path, cls = Path(name.rpartition(":")[0]), name.rpartition(":")[2]
    try:
        source = path.read_bytes()
    except (OSError, ValueError) as error:
        raise UserError(f"drafter {name}: no file {path} that can be read ({first_line(error)})") from error
    digest = hashlib.sha256(source).hexdigest()[:8]
    module = _module(path, source, digest)
    found = getattr(module, cls, None)
    if found is None:
        here = [name for name, value in vars(module).items() if _defines(module, value)]
        raise UserError(f"{path}: no class {cls!r}; its drafters: {', '.join(here) or 'none'}")
    if fault := _unfit(found):
        raise UserError(f"{path}: {cls} {fault}")
    _FILES[known_as := f"{cls}@{digest}"] = _Loaded(f"{path.resolve()}:{cls}", found)
    return known_as


def _module(path: Path, source: bytes, digest: str) -> ModuleType:
    """The bytes that were hashed, run once in a module of their own."""
    name = f"spotbench_drafter_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(path)
    try:
        sys.modules[name] = module  # where dataclasses and pickle look for it
        exec(compile(source, str(path), "exec"), vars(module))
    except SyntaxError as error:
        del sys.modules[name]
        raise UserError(f"{path}, line {error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UserError(f"{path}: cannot be loaded ({_told(error)})") from error
    return module


def _unfit(found: object) -> str:
    """Why something is no class of drafters; empty if it is one."""
    if not isinstance(found, type) or not issubclass(found, Drafter):
        return "is not a Drafter; derive it from drafters.Drafter"
    return "lacks the method propose" if inspect.isabstract(found) else ""


def _defines(module: ModuleType, value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Drafter) and value.__module__ == module.__name__


def _package(entry: metadata.EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error)}"
