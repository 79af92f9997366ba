"""Weights & Biases: the curve of a training. What fails here is told once and stops nothing."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from suite.errors import first_line

Note = Callable[[Mapping[str, float]], None]


@contextmanager
def curve(name: str, config: Mapping[str, Any], folder: Path, warn: Callable[[str], None]) -> Iterator[Note]:
    """A run in `folder`/wandb; call what it yields with a "step" and figures, the first step first.

    Offline unless WANDB_MODE is set: `wandb sync` uploads it, `wandb leet` shows it. The run's id follows from its
    config, so that a training that was taken up again is one run on a server. Neither host, paths nor code are kept.
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

    def begin() -> Any:
        import wandb

        return wandb.init(
            project="spotbench",
            job_type="train",
            name=name,
            id=hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:16],
            resume="allow",
            config=dict(config),
            dir=folder,
            mode=None if os.environ.get("WANDB_MODE") else "offline",
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
        )

    run = guarded(begin)
    try:
        yield lambda figures: guarded(
            lambda: run.log({key: value for key, value in figures.items() if key != "step"}, step=int(figures["step"]))
        )
    finally:
        guarded(lambda: run.finish())
