"""Bundles in several processes of one machine.

A worker takes one bundle after another. When one dies, another takes its place, and may go on with the bundle it was
at. What is killed with its parent loses the prompt in flight.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from suite.cells import Bundle
from suite.errors import UserError

Tell = Callable[[str, int, int], None]
Work = Callable[..., Any]
"""Called with a bundle and `progress`, a `Tell`. It is pickled: a module's function, or a partial of one."""


@dataclass
class _Worker:
    """A process, the end of its pipe, its place, and the number of the bundle it is at."""

    process: SpawnProcess
    pipe: Connection
    slot: int
    at: int


def run(
    bundles: Sequence[Bundle],
    work: Work,
    workers: int,
    begin: Callable[[int, int], Tell],
    died: Callable[[Bundle, str], bool],
    gpus: Sequence[str] = (),
) -> None:
    """Run `work` on every bundle, in up to `workers` processes.

    Args:
        begin: given a bundle's number and its worker's place, how to tell what happens there.
        died: called with a bundle whose process ended, and how; whether to go on with it in another process.
        gpus: as CUDA names them, one for each worker; none: workers share what there is.

    Raises:
        UserError: of a worker; all others are stopped.
    """
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
    waiting, busy = list(range(len(bundles))), dict[Connection, _Worker]()
    tells: dict[int, Tell] = {}

    def give(worker: _Worker) -> None:
        worker.at = waiting.pop(0)
        tells[worker.at] = begin(worker.at, worker.slot)
        busy[worker.pipe] = worker
        worker.pipe.send(bundles[worker.at])

    try:
        for slot in range(min(workers, len(bundles))):
            give(_start(work, slot, gpus))
        while busy:
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                try:
                    said = worker.pipe.recv()
                except EOFError:
                    del busy[worker.pipe]
                    worker.process.join()
                    if died(bundles[worker.at], _ending(worker.process.exitcode)):
                        waiting.append(worker.at)
                    if waiting:
                        give(_start(work, worker.slot, gpus))
                    continue
                if isinstance(said, UserError):
                    raise said
                if said is not None:
                    tells[worker.at](*said)
                elif waiting:
                    give(worker)
                else:
                    del busy[worker.pipe]
                    worker.pipe.close()  # its sign to go
                    worker.process.join()
    finally:
        for worker in busy.values():
            worker.process.terminate()
            worker.process.join()


def _start(work: Work, slot: int, gpus: Sequence[str]) -> _Worker:
    context = multiprocessing.get_context("spawn")
    pipe, far = context.Pipe()
    process = context.Process(target=_serve, args=(far, work, gpus[slot] if gpus else None), daemon=True)
    process.start()
    far.close()
    return _Worker(process, pipe, slot, -1)


def _serve(pipe: Connection, work: Work, gpu: str | None) -> None:
    """The worker: bundles come in, what happens goes out, None after each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to handle
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    while True:
        try:
            bundle = pipe.recv()
        except EOFError:
            return
        try:
            work(bundle, progress=lambda *said: pipe.send(said))
        except UserError as error:
            pipe.send(error)
            return
        pipe.send(None)


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was killed by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"
