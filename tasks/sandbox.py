"""Run a model's Python in a process of its own, under limits.

The program gets an isolated interpreter with the standard library only (`-I -S`), an empty
temporary folder, no environment, no input, and an output that goes nowhere. Memory, processor time,
file size and the number of processes are limited. On Linux it also gets network and process
namespaces of its own: no network, and none of its children outlives it. Where the kernel or the
container refuses those (`confined()` says so), **the network stays open**, and a child that leaves
the process group is not found again.

This guards against accidents, not against malice: a program can read, and write outside its folder,
what its user can, and one that goes looking for the token in its own frames can forge a pass.
"""

import functools
import math
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

Reason = Literal["passed", "failed", "exited", "crashed", "memory", "timeout"]

CHILD = Path(__file__).with_name("sandbox_child.py")


@dataclass(frozen=True)
class Verdict:
    """How a program ended; `detail` is one short line for people.

    passed: the last line was reached. failed: an exception. exited: it left before its last line.
    crashed: a signal. memory, timeout: it asked for more than its share.
    """

    reason: Reason
    detail: str = ""

    @property
    def passed(self) -> bool:
        return self.reason == "passed"


def run(program: str, *, seconds: float = 5.0, memory_mib: int = 512) -> Verdict:
    """Run `program` to its end, or for `seconds` of wall time.

    Raises:
        RuntimeError: the sandbox itself could not start, which says nothing about the program.
    """
    token = secrets.token_hex(16)  # only who knows it can report a pass, and it is told after the last line
    reading, writing = os.pipe()
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(CHILD)],
                cwd=folder,
                env={},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[writing],
                start_new_session=True,
            )
            order = f"{token} {writing} {memory_mib << 20} {math.ceil(seconds) + 1}\n{program}"
            try:
                _, trouble = process.communicate(order.encode(errors="replace"), timeout=seconds)
            except subprocess.TimeoutExpired:
                return Verdict("timeout", f"no end within {seconds:g} s")
            finally:
                if process.returncode is None:  # not waited for yet, so the group is surely still ours
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if process.returncode > 0:
            raise RuntimeError(f"the sandbox could not start: {trouble.decode(errors='replace').strip()[-300:]}")
        return _read(reading, token)
    finally:
        os.close(reading)
        os.close(writing)


@functools.cache
def confined() -> bool:
    """Whether programs run here without network and with none of their children outliving them."""
    return run("import os\nassert os.getpid() == 1").passed


def _read(reading: int, token: str) -> Verdict:
    os.set_blocking(reading, False)  # nothing there is an answer too
    try:
        report = os.read(reading, 4096).decode(errors="replace")
    except BlockingIOError:
        report = ""
    said, reason, detail = [*report.partition("\n")[0].split(" ", 2), "", ""][:3]
    if said != token or reason not in get_args(Reason):
        return Verdict("crashed", "ended without a report")
    return Verdict(cast(Reason, reason), detail)
