"""Bundles that take no time: a toy in the place of target and task, with the runner and all else as they are.

Jobs get it by the `setup` of a cluster file. Faults are injected by seed, which tells the bundles of a grid apart.
"""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from tasks.harness import Request
from tests.toy import ToyTarget

FOLDER = "TOY_FOLDER"
"""Environment variable: where jobs write down what they do, and find out what to do wrong."""
DRAFTER = '''
import os

from drafters import Drafter

SEED = "TOY_SEED"


class Faulty(Drafter):
    """Guesses nothing; of seed 1 it raises, of seed 2 it takes its process along."""

    def propose(self, view, rows):
        if os.environ.get(SEED) == "1":
            raise ValueError("no idea")
        if os.environ.get(SEED) == "2":
            os._exit(9)
        return []
'''


class ToyTask:
    name, version, metric, max_new_tokens, executes_code = "tiny-gsm", "toy", "even", 8, False

    def self_check(self) -> None:
        pass

    def requests(self, chat: Any, limit: int | None = None) -> list[Request]:
        return [Request(n, f"{1 + n % 4} 2 3 4", ()) for n in range(limit or 2)]

    def score(self, doc_id: int, text: str) -> dict[str, float]:
        return {"even": float(len(text) % 2 == 0)}


def load(spec: Any, *_: Any, **__: Any) -> ToyTarget:
    target = ToyTarget()
    mine = target.spec
    same = {name: getattr(mine, name) for name in ("mask_id", "stop_ids", "vocab_size", "block_size", "excluded_ids")}
    target.spec = replace(spec, **same)
    return target


def install() -> None:
    """Put the toys into this process, before it imports the runner."""
    module = ModuleType("suite.targets.load")
    module.load = load  # type: ignore[attr-defined]
    sys.modules["suite.targets.load"] = module
    import suite.targets

    suite.targets.load = module
    import tasks.harness

    tasks.harness.load = lambda name: ToyTask()  # type: ignore[assignment,return-value]
    from suite import runner

    visit = runner.Session.visit

    def visited(self: Any, n: int, request: Request, todo: Sequence[Any]) -> Any:
        note(self, [method.cell for method in todo])
        if n == 1 and FOLDER in os.environ:
            misbehave(Path(os.environ[FOLDER]), self.bundle.baseline.seed)
        return visit(self, n, request, todo)

    runner.Session.visit = visited  # type: ignore[method-assign]


def note(session: Any, cells: Sequence[Any]) -> None:
    os.environ["TOY_SEED"] = str(session.bundle.baseline.seed)
    if FOLDER not in os.environ:
        return
    folder = Path(os.environ[FOLDER])
    gpu, node = os.environ.get("CUDA_VISIBLE_DEVICES", ""), os.environ.get("SLURMD_NODENAME", "")
    with (folder / "visits").open("a") as file:
        file.write("".join(f"{cell.id} {time.time()} {node} {gpu}\n" for cell in cells))


def misbehave(folder: Path, seed: int) -> None:
    """Once: what the file named by the seed says, `wait` (until it is gone) or `memory`. It is told in `at/<seed>`."""
    order = folder / str(seed)
    try:
        what = order.read_text()
        (folder / "at").mkdir(exist_ok=True)
        with (folder / "at" / str(seed)).open("x") as told:
            told.write(f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']} {os.getpid()} ")
            told.write(os.environ["SLURMD_NODENAME"] + "\n")
    except (FileNotFoundError, FileExistsError):
        return
    hoard = b"x" * 2**31 if what == "memory" else b""  # noqa: F841 - held while it waits
    for _ in range(12_000):  # as long as the tests wait for anything: what waits must not go on by itself
        if not order.exists():
            return
        time.sleep(0.1)
