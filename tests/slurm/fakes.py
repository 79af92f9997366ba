"""Slurm's commands as scripts that answer from files, for tests without a Slurm."""

from dataclasses import dataclass
from pathlib import Path

SCRIPTS = {
    "srun": "",
    "scontrol": 'echo "MaxArraySize            = $(cat {folder}/longest)"',
    "squeue": """
echo "$@" >> {folder}/asked
test -e {folder}/down && {{ echo "slurm_load_jobs error: down" >&2; exit 1; }}
cat {folder}/queue
""",
    "sbatch": """
test -e {folder}/full && {{ echo "sbatch: error: QOSMaxSubmitJobPerUserLimit" >&2; exit 1; }}
echo >> {folder}/jobs
cp "$1" {folder}/$(wc -l < {folder}/jobs).sh
env | grep ^SLURM_ | cut -d= -f1 >> {folder}/leaked
echo "Submitted batch job $(wc -l < {folder}/jobs)"
""",
}


@dataclass(frozen=True)
class FakeSlurm:
    folder: Path

    def queue(self, *lines: str) -> None:
        """What squeue tells."""
        (self.folder / "queue").write_text("".join(f"{line}\n" for line in lines))

    def scripts(self) -> list[str]:
        """The batch files that were submitted, in order."""
        return [path.read_text() for path in sorted(self.folder.glob("*.sh"), key=lambda path: int(path.stem))]

    def set(self, name: str, on: bool = True) -> None:
        """`down`: squeue fails; `full`: sbatch refuses."""
        (self.folder / name).touch() if on else (self.folder / name).unlink()


def install(folder: Path, longest: int) -> FakeSlurm:
    """The commands in `folder`, which is to come first in PATH."""
    for name, script in SCRIPTS.items():
        path = folder / name
        path.write_text("#!/bin/bash\n" + script.format(folder=folder) + "\n")
        path.chmod(0o755)
    (folder / "longest").write_text(str(longest))
    fake = FakeSlurm(folder)
    fake.queue()
    return fake
