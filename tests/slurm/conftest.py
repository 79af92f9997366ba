"""A real Slurm on this machine: four nodes that share it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import slurm

LAB = Path(slurm.__file__).parent / "lab"
ROOT = Path(slurm.__file__).parent.parent
NEEDED = ("slurmctld", "slurmd", "sbatch", "munged")


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


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        pytest.skip(
            f"no Slurm here ({', '.join(missing)} missing): apt-get install slurmctld slurmd slurm-client munge"
        )
    if os.getuid():
        pytest.skip("a Slurm of one's own needs root")
    prefix = Path(tempfile.mkdtemp(prefix="slurm-lab-"))
    prefix.chmod(0o755)  # as munge wants it of all folders above its socket
    lane = 100 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])  # each worker of pytest has a Slurm of its own
    knobs = {
        "INSTALL": "0", "GPUS": "2", "MAX_ARRAY": "25", "SLURMD_TIMEOUT": "10", "GRACE": "3",
        "CTLD_PORT": str(36817 + lane), "NODE_PORT0": str(37000 + lane),
    }  # fmt: skip
    subprocess.run([LAB / "up.sh", prefix], check=True, env=os.environ | knobs, stdin=subprocess.DEVNULL)
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(prefix / "slurm.conf")
    try:
        yield Lab(prefix)
    finally:
        os.environ.pop("SLURM_CONF")
        if before:
            os.environ["SLURM_CONF"] = before
        subprocess.run([LAB / "down.sh", prefix], check=True, stdin=subprocess.DEVNULL)
