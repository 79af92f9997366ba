"""Run a model's Python in a process of its own, under limits.

The program gets an isolated interpreter with the standard library only (`-I -S`), an empty folder, no environment, no
input, and an output that goes nowhere. Memory, processor time, file size and the number of processes are limited. On
Linux it also gets namespaces of its own: no network, no process but its own, none of which outlives it, and a file
system with nothing in it but Python and the system's programs, read-only, and its folder, which lies in memory and has
a largest size. Where the kernel or the container refuses those, `walls()` says so: **the network stays open**, and the
program can read, write and kill what its user can.

A program cannot harm the machine behind these walls, but one that goes looking for the token in its own frames can
forge a pass.
"""

import functools
import math
import os
import secrets
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

Reason = Literal["passed", "failed", "exited", "crashed", "memory", "timeout"]

GRACE = 5.0
"""Seconds for the sandbox to clear up after a program that took too long."""
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
                if process.returncode is None:
                    _end(process)
        if process.returncode > 0:
            raise RuntimeError(f"the sandbox could not start: {trouble.decode(errors='replace').strip()[-300:]}")
        return _read(reading, token)
    finally:
        os.close(reading)
        os.close(writing)


@dataclass(frozen=True)
class Walls:
    """What this machine lets the sandbox close: network and processes at once, and files."""

    network: bool
    files: bool

    @property
    def told(self) -> str:
        """In one line for people."""
        if self.network and self.files:
            return "no network, no files and no processes but its own"
        if self.network:
            return "no network and no processes but its own; its user's FILES STAY OPEN: mounting is refused here"
        return "limits only; NETWORK, FILES AND PROCESSES of its user STAY OPEN: namespaces are refused here"


@functools.cache
def walls() -> Walls:
    """Found out by programs that look around."""
    return Walls(
        network=run("import os\nassert os.getpid() == 1").passed,
        files=run("import os\nassert os.getcwd() == '/work'").passed,
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    """It kills its program and waits for it, so that nobody else has to; if it does not, it dies itself."""
    process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


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
