"""What Slurm says: one call for the state of all jobs, one for the site's limits."""

import re
import subprocess
from collections.abc import Collection
from dataclasses import dataclass

OVER = frozenset(
    {
        "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
        "REVOKED", "TIMEOUT",
    }
)  # fmt: skip
"""The states of jobs that do not come back; all others are live, those of a later Slurm too."""
WORKING = frozenset({"RUNNING", "COMPLETING"})
FORMAT = "%j|%K|%i|%T|%N|%r"


class QueueError(Exception):
    """Slurm did not answer, so nothing is known of any job."""


@dataclass(frozen=True)
class Job:
    """One job of an array. `state`: Slurm's, which tells whether it is live, never what came of it."""

    id: str
    state: str
    node: str
    reason: str

    @property
    def live(self) -> bool:
        return self.state not in OVER

    @property
    def working(self) -> bool:
        return self.state in WORKING


Queue = dict[tuple[str, int], Job]
"""(name of the array, index in it) -> job. Those that ended minutes ago are not in it any more."""


def look(names: Collection[str]) -> Queue:
    """The jobs of the arrays of these names, whoever submitted them. Raises QueueError."""
    if not names:
        return {}
    return parse(_ask("squeue", "--noheader", "--array", "--states=all", f"--name={','.join(names)}", "-o", FORMAT))


def parse(text: str) -> Queue:
    """Raises QueueError on what is no answer of squeue."""
    found: Queue = {}
    for line in text.splitlines():
        parts = line.split("|", 5)
        if len(parts) != 6:
            raise QueueError(f"squeue answered {line!r}")
        name, index, *job = parts
        found[name, int(index) if index.isdigit() else 0] = Job(*job)
    return found


def longest_array() -> int:
    """How many jobs an array may have here. Raises QueueError."""
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", _ask("scontrol", "show", "config"), re.M)
    if not found:
        raise QueueError("scontrol show config does not tell MaxArraySize")
    return int(found[1])


def _ask(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    except FileNotFoundError as error:
        raise QueueError(f"{command[0]} is not on this machine's PATH") from error
    except subprocess.TimeoutExpired as error:
        raise QueueError(f"{command[0]} did not answer within {error.timeout:g} s") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or [f"exit code {error.returncode}"]
        raise QueueError(f"{command[0]}: {said[-1]}") from error
