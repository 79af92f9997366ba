"""`spotbench submit`: what is missing or lost, as job arrays of one bundle a job, the longest first."""

import io
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path

import submitit
from submitit.core.utils import FailedJobError, FailedSubmissionError
from submitit.helpers import clean_env

from slurm import ledger, queue
from slurm.cluster import Cluster, Resources, minutes
from slurm.ledger import Submission
from slurm.queue import QueueError
from slurm.survey import State, Survey, survey
from slurm.worker import Report, Task
from suite import deaths, estimate
from suite.cells import Bundle
from suite.errors import UserError, first_line
from suite.grid import Grid
from suite.machine import code_hash
from suite.store import Store

REQUEUES = 100
"""How often a job may go back to the queue at its time limit, as long as it gets on."""

DEAF = 'sh -c \'trap "" USR2 TERM; exec "$@"\' sh'
"""A process dies of these signals until it has handlers: a job that is preempted as it starts would not come back."""


@dataclass(frozen=True)
class Chunk:
    """One array to be: bundles that ask for the same, and the cells of each that are to be run."""

    resources: Resources
    bundles: tuple[Bundle, ...]
    cells: dict[str, frozenset[str]]

    @property
    def targets(self) -> list[str]:
        return list(dict.fromkeys(bundle.baseline.target for bundle in self.bundles))

    @property
    def wanted(self) -> int:
        return sum(len(self.cells[bundle.id]) for bundle in self.bundles)

    @property
    def most_hours(self) -> float:
        """If every job took all its time."""
        return len(self.bundles) * minutes(self.resources.time) / 60

    @property
    def hours(self) -> float:
        """What they may take, by the sizes of things."""
        return sum(_seconds(bundle, self.cells[bundle.id]) for bundle in self.bundles) / 3600


@dataclass(frozen=True)
class Plan:
    """`later`: bundles for which the site's queue has no room now."""

    chunks: list[Chunk]
    later: int
    survey: Survey


def plan(grid: Grid, store: Store, cluster: Cluster, retry: bool) -> Plan:
    """What is to be submitted now. Raises UserError when Slurm does not answer, or cannot run the grid as asked."""
    bundles = grid.bundles()
    found = survey(bundles, store)
    if found.fault:
        raise UserError(f"{found.fault}; without the queue nobody knows what is at work already; try again")
    states = (State.MISSING, State.LOST, *([State.FAILED] if retry else []))
    cells = {bundle.id: frozenset(found.of(bundle, *states)) for bundle in bundles}
    todo = [bundle for bundle in bundles if cells[bundle.id]]
    for target in {bundle.baseline.target for bundle in todo} if grid.device in ("cuda", "auto") else ():
        if not cluster.of_target(target).gpus:
            raise UserError(f"{cluster.name}: gpus: the grid runs {target} on {grid.device}; ask for 1 or more")
    chunks, later = split(todo, cells, cluster, _longest_array(cluster) if todo else 1, _room(found, cluster))
    return Plan(chunks, later, found)


def split(
    todo: Sequence[Bundle], cells: dict[str, frozenset[str]], cluster: Cluster, longest: int, room: int
) -> tuple[list[Chunk], int]:
    """Arrays of at most `longest` jobs that ask for the same, `room` jobs in all; and how many bundles are left.

    The longest bundles come first: in each array, and in being submitted at all.
    """
    ordered = sorted(todo, key=lambda bundle: -_seconds(bundle, cells[bundle.id]))
    taken = ordered[:room]
    asks = {target: cluster.of_target(target) for target in {bundle.baseline.target for bundle in taken}}
    kinds = list(dict.fromkeys(asks[bundle.baseline.target] for bundle in taken))
    chunks = []
    for kind in kinds:
        alike = [bundle for bundle in taken if asks[bundle.baseline.target] == kind]
        for start in range(0, len(alike), longest):
            some = tuple(alike[start : start + longest])
            chunks.append(Chunk(kind, some, {bundle.id: cells[bundle.id] for bundle in some}))
    return chunks, len(ordered) - len(taken)


@dataclass(frozen=True)
class Submitted:
    """`refused`: Slurm's word, if it did not take all arrays."""

    submission: Submission
    refused: str


def submit(
    planned: Plan, grid: Grid, store: Store, cluster: Cluster, traces: Path | None = None, retry: bool = False
) -> Submitted:
    """Submit a plan; `traces`: where they lie, for replayed cells. What Slurm refuses stays missing.

    Raises UserError when a file cannot be written.
    """
    ids = [tuple(bundle.id for bundle in chunk.bundles) for chunk in planned.chunks]
    submission = ledger.new(store.root, grid.name, code_hash(), ids)
    submission.write()
    submission.snapshot()
    try:
        for n, chunk in enumerate(planned.chunks):
            if retry:
                _forget(store, chunk)
            jobs = [
                Task(
                    bundle,
                    store,
                    grid.allow_code_execution,
                    traces,
                    frozenset(cell.id for cell in bundle.cells) - chunk.cells[bundle.id],
                    submission.id,
                    submission.code,
                    minutes(chunk.resources.time),
                )
                for bundle in chunk.bundles
            ]
            made = executor(submission, cluster, chunk.resources, submission.arrays[n].name)
            submission = submission.submitted(n, _sbatch(made, jobs))
            submission.write()
        after = f"afterany:{':'.join(array.job for array in submission.arrays)}"  # a failed job does not hold it back
        made = executor(submission, cluster, cluster.of_report(), f"{grid.name}.{submission.id}.report", after)
        submission = replace(submission, report=_sbatch(made, [Report(grid, store)]))
        submission.write()
    except (FailedJobError, FailedSubmissionError) as error:
        return Submitted(submission, _said(error))
    return Submitted(submission, "")


def executor(
    submission: Submission, cluster: Cluster, asked: Resources, name: str, after: str = ""
) -> submitit.SlurmExecutor:
    """What writes the batch file. `after`: the jobs to wait for, as sbatch has it."""
    python = f"{cluster.container} python3" if cluster.container else shlex.quote(sys.executable)
    made = submitit.SlurmExecutor(submission.logs, max_num_timeout=REQUEUES, python=f"{DEAF} {python}")
    given = {"partition", "account", "qos", "constraint", "gres"} & {key for key, value in asked if value}
    made.update_parameters(
        job_name=name,
        ntasks_per_node=1,
        cpus_per_task=asked.cpus,
        time=minutes(asked.time),
        signal_delay_s=cluster.signal_s,
        array_parallelism=cluster.throttle,
        wckey=None,
        setup=_setup(cluster, submission.code_folder),
        srun_args=[f"--cpus-per-task={asked.cpus}", *cluster.srun],  # srun does not take it from sbatch any more
        additional_parameters={"requeue": True},
        **{key: getattr(asked, key) for key in sorted(given)},
        **({"gpus_per_node": asked.gpus} if asked.gpus else {}),
        **({"mem": f"{asked.memory_gb * 1024:.0f}M"} if asked.memory_gb else {}),
        **({"dependency": after} if after else {}),
    )
    return made


def _setup(cluster: Cluster, code: Path) -> list[str]:
    cache = cluster.node_cache
    node = [f'export TMPDIR="{cache}" XDG_CACHE_HOME="{cache}/cache"', 'mkdir -p "$TMPDIR"'] if cache else []
    path = f"export PYTHONPATH={shlex.quote(str(code))}${{PYTHONPATH:+:$PYTHONPATH}} PYTHONSAFEPATH=1"
    return [*cluster.setup, *node, path, "export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}"]


def _sbatch(made: submitit.SlurmExecutor, jobs: Sequence[Callable[[], None]]) -> str:
    """Slurm's number of the array. Of an environment of Slurm only where the cluster is, is kept."""
    conf = {key: value for key, value in os.environ.items() if key == "SLURM_CONF"}
    with clean_env(), redirect_stderr(io.StringIO()):  # what sbatch says there is in the error too
        os.environ.update(conf)
        first, *_ = made.submit_array(jobs)
    return str(first.job_id).partition("_")[0]


def _forget(store: Store, chunk: Chunk) -> None:
    """Give those that were given up another chance."""
    for bundle in chunk.bundles:
        died = store.deaths(bundle)
        store.forget_deaths(bundle, {cell for cell in chunk.cells[bundle.id] if died[cell] >= deaths.LIMIT})


def _seconds(bundle: Bundle, cells: frozenset[str]) -> float:
    return estimate.seconds(bundle, [cell for cell in bundle.cells if cell.id in cells])


def _longest_array(cluster: Cluster) -> int:
    try:
        return min(cluster.max_array, queue.longest_array())
    except QueueError as error:
        raise UserError(str(error)) from error


def _room(found: Survey, cluster: Cluster) -> int:
    if not cluster.max_queued:
        return sys.maxsize
    live = sum(job.live for job in (found.queue or {}).values())
    return max(0, cluster.max_queued - live - 1)  # one is the report


def _said(error: BaseException) -> str:
    """Slurm's own word among all that submitit says."""
    lines = [line.strip() for line in str(error).splitlines() if "error:" in line]
    return lines[-1] if lines else first_line(error)
