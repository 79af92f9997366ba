"""A real Slurm on this machine, whose nodes share it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import slurm

LAB = Path(slurm.__file__).parent / "lab"
ROOT = Path(slurm.__file__).parent.parent
NEEDED = ("slurmctld", "slurmd", "sbatch", "munged")
PACKAGES = "slurmctld slurmd slurm-client munge slurmdbd slurm-wlm-mysql-plugin mariadb-server"
LANE = 200 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
"""Added to the ports, so that each worker of pytest has its own."""


@dataclass(frozen=True)
class Lab:
    prefix: Path

    def ask(self, *command: str) -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    def state(self, job: str) -> str:
        return self.ask("squeue", "--noheader", f"--jobs={job}", "-o", "%T").strip()

    def pid_of_slurmd(self, node: str) -> int:
        """Of the pids that up.sh wrote down: munged, slurmctld, then one a node."""
        return int((self.prefix / "pids").read_text().split()[2 + int(node[1:]) - 1])

    def tell_of_preemption(self, told: bool) -> None:
        """Whether a job that is preempted gets its user signal."""
        conf = self.prefix / "slurm.conf"
        line = "SlurmctldParameters=preempt_send_user_signal"
        text = conf.read_text().replace(f"#{line}", line)
        conf.write_text(text if told else text.replace(line, f"#{line}"))
        self.ask("scontrol", "reconfigure")


@contextmanager
def brought_up(needed: Sequence[str], **knobs: str) -> Iterator[Lab]:
    """A Slurm of one's own for as long as this lasts, and the one that Slurm's commands speak to."""
    missing = [name for name in needed if shutil.which(name) is None]
    if missing:
        pytest.skip(f"no Slurm here ({', '.join(missing)} missing): apt-get install {PACKAGES}")
    if os.getuid():
        pytest.skip("a Slurm of one's own needs root")
    prefix = Path(tempfile.mkdtemp(prefix="slurm-lab-"))
    prefix.chmod(0o755)  # as munge wants it of all folders above its socket
    subprocess.run(
        [LAB / "up.sh", prefix], check=True, env=os.environ | {"INSTALL": "0"} | knobs, stdin=subprocess.DEVNULL
    )
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLURM_CONF", str(prefix / "slurm.conf"))
            yield Lab(prefix)
    finally:
        subprocess.run([LAB / "down.sh", prefix], check=True, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    knobs = {"GPUS": "2", "MAX_ARRAY": "25", "SLURMD_TIMEOUT": "10", "GRACE": "3"}
    with brought_up(NEEDED, **knobs, CTLD_PORT=str(36817 + LANE), NODE_PORT0=str(37000 + LANE)) as one:
        yield one


@pytest.fixture
def lab_with_accounts() -> Iterator[Lab]:
    """It has a slurmdbd, and one node."""
    names = ("CTLD_PORT", "DBD_PORT", "DB_PORT", "NODE_PORT0")
    ports = {name: str(36917 + LANE + n) for n, name in enumerate(names)}
    with brought_up((*NEEDED, "slurmdbd", "mariadbd"), DBD="1", NODES="1", **ports) as one:
        yield one
