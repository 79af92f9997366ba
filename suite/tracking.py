"""Weights & Biases: the curve of a training, and finished cells. What fails here is told and stops nothing else.

Runs are offline unless WANDB_MODE is set: `wandb sync` uploads them, `wandb leet` shows them. Neither host, paths nor
code are kept; so there are no artifacts, which note where their files lie.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.errors import first_line
from suite.files import replace_file

Note = Callable[[Mapping[str, float]], None]
MIRRORED = "mirrored"
"""The folder, in that of the runs, with a file for each that is whole."""


@dataclass(frozen=True)
class Mirrored:
    """A run that is logged at once.

    `key`: its id follows from it. `stamp`: what changes when it has to be logged again. `history`: a mapping for each
    step, from 1. `pictures`: PNG files by title.
    """

    key: str
    stamp: str
    name: str
    group: str
    job_type: str
    tags: Sequence[str]
    config: Mapping[str, Any]
    summary: Mapping[str, Any]
    history: Sequence[Mapping[str, float]] = ()
    pictures: Mapping[str, Path] | None = None

    @property
    def id(self) -> str:
        return _id(self.key)


@contextmanager
def curve(name: str, config: Mapping[str, Any], folder: Path, warn: Callable[[str], None]) -> Iterator[Note]:
    """A run in `folder`/wandb; call what it yields with a "step" and figures, the first step first.

    The run's id follows from its config, so that a training that was taken up again is one run on a server.
    """
    working = True

    def guarded(do: Callable[[], Any]) -> Any:
        nonlocal working
        if working:
            try:
                return do()
            except Exception as error:  # noqa: BLE001 - a training is worth more than its curve
                working = False
                warn(f"not tracked in Weights & Biases from here on: {first_line(error)}")
        return None

    run = guarded(
        lambda: _begin(
            folder, name=name, job_type="train", id=_id(json.dumps(config, sort_keys=True)), config=dict(config)
        )
    )
    try:
        yield lambda figures: guarded(
            lambda: run.log({key: value for key, value in figures.items() if key != "step"}, step=int(figures["step"]))
        )
    finally:
        guarded(lambda: run.finish())


def mirror(runs: Iterable[Mirrored], folder: Path, warn: Callable[[str], None]) -> int:
    """Log the runs that `folder`/wandb does not have yet; how many these were. Ends at the first that fails.

    A run that was cut short is logged again under the same id, summary first, so that a server has it once.
    """
    logged = 0
    for one in runs:
        mark = folder / "wandb" / MIRRORED / one.id
        if mark.exists() and mark.read_text(encoding="utf-8") == one.stamp:
            continue
        try:
            _log(one, folder)
        except Exception as error:  # noqa: BLE001 - whatever a tracker does, the results stand
            warn(f"{one.name}: not tracked in Weights & Biases: {first_line(error)}")
            break
        mark.parent.mkdir(parents=True, exist_ok=True)
        replace_file(mark, one.stamp.encode())
        logged += 1
    return logged


def _log(one: Mirrored, folder: Path) -> None:
    import wandb

    run = _begin(
        folder,
        name=one.name,
        group=one.group,
        job_type=one.job_type,
        id=one.id,
        tags=[tag[:64] for tag in one.tags],
        config=dict(one.config),
    )
    try:
        run.summary.update(dict(one.summary))
        for step, figures in enumerate(one.history, 1):
            run.log(dict(figures), step=step)
        if one.pictures:
            run.log({title: wandb.Image(str(path)) for title, path in one.pictures.items()})
    finally:
        run.finish()


def _id(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def _begin(folder: Path, **facts: Any) -> Any:
    import wandb

    folder.mkdir(parents=True, exist_ok=True)
    return wandb.init(
        project="spotbench",
        resume="allow",
        dir=folder,
        mode=os.environ.get("WANDB_MODE") or "offline",  # type: ignore[arg-type]
        settings=wandb.Settings(
            console="off",
            silent=True,
            disable_git=True,
            disable_code=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
            host="none",
        ),
        **facts,
    )
