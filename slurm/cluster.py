"""Cluster files: all that is particular to a site, read from TOML and checked."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from suite import settings
from suite.errors import UserError

SHIPPED = Path(__file__).parent / "clusters"
TIME = re.compile(r"(?:(\d+)-)?(\d{1,2}):(\d{2}):(\d{2})")


class Resources(BaseModel):
    """What one job asks for. `gpus`: on its one node. `gres`: anything else, as the site spells it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    gres: str = ""
    gpus: Annotated[int, Field(ge=0)] = 0
    cpus: Annotated[int, Field(ge=1)] = 1
    memory_gb: Annotated[float, Field(gt=0)] | None = None
    time: str = "1:00:00"

    @field_validator("time")
    @classmethod
    def _time(cls, value: str) -> str:
        minutes(value)
        return value


class Cluster(Resources):
    """A cluster file. Its keys are what every job asks for; `[targets.NAME]` and `[report]` say what differs there.

    `name`: of the folder that results go to. `setup`: lines of shell before a job's command. `container`: what goes
    before `python3` in it, such as `apptainer exec --nv IMAGE`. `srun`: more arguments of srun.
    `node_cache`: a folder on the node's own disk, for temporary files and what compilers keep.
    `signal_s`: how long before its time limit a job is told [s]. `throttle`: how many jobs of an array may run at once.
    `max_array`: the longest array; `max_queued`: the most jobs of a grid in the queue at once, 0: no limit.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=64)]
    about: str = ""
    setup: list[str] = []
    container: str = ""
    srun: list[str] = []
    node_cache: str = ""
    signal_s: Annotated[int, Field(ge=1, le=3600)] = 120
    throttle: Annotated[int, Field(ge=1)] = 256
    max_array: Annotated[int, Field(ge=1)] = 1000
    max_queued: Annotated[int, Field(ge=0)] = 0
    targets: dict[str, Resources] = {}
    report: Resources = Resources()

    def of_target(self, target: str) -> Resources:
        return self._with(self.targets.get(target, Resources()))

    def of_report(self) -> Resources:
        """What the report job asks for: no GPU unless `[report]` says so."""
        return self._with(
            Resources.model_validate({"gpus": 0, "gres": ""} | self.report.model_dump(exclude_unset=True))
        )

    def _with(self, other: Resources) -> Resources:
        own: dict[str, Any] = {key: getattr(self, key) for key in Resources.model_fields}
        return Resources(**own | other.model_dump(exclude_unset=True))


def minutes(time: str) -> int:
    """A time limit in whole minutes, rounded up. Raises UserError on what is none."""
    found = TIME.fullmatch(time)
    if not found:
        raise UserError(f"{time!r} is no time limit; write HH:MM:SS or D-HH:MM:SS")
    days, hours, mins, seconds = (int(part or 0) for part in found.groups())
    return max(1, days * 1440 + hours * 60 + mins + bool(seconds))


def shipped() -> dict[str, Path]:
    """Cluster name -> file."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.toml"))}


def read(name_or_path: str) -> Cluster:
    """A shipped cluster by name, or a cluster file. Raises UserError naming the file, the key and the mend."""
    return settings.read(settings.find("cluster", shipped(), name_or_path), Cluster, Resources)
