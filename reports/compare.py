"""`spotbench compare`: a drafter's row among the others, from traces, with paired intervals against each of them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import drafters
from reports import duel, frame, tables
from reports.duel import Duel
from reports.tables import Column, Part
from suite import grid
from suite.decoding.policy import Policy
from suite.decoding.rules import parse_rule
from suite.errors import UserError
from suite.grid import Grid
from suite.store import Store
from suite.targets import catalog
from tasks import harness

BOUNDS = ("none", "oracle", "perfect")
AGAINST: list[Column[Duel]] = [
    Column("against", lambda x: x.rival, left=True),
    Column("rows", lambda x: str(x.rows)),
    Column("fewer passes", lambda x: f"{x.pooled.value:.3f} [{x.pooled.low:.3f}, {x.pooled.high:.3f}]"),
    Column("verdict", lambda x: verdict(x)),
    Column("worst task", lambda x: f"{x.worst.value:.3f} {x.worst_task}"),
]
NOTE = (
    "fewer passes: passes of the other / passes of yours, geometric mean over prompts, paired, [95 % bootstrap "
    "interval]; above 1 yours needs fewer. worst task: the task where that is least."
)


@dataclass(frozen=True)
class Comparison:
    """One temperature: everybody's line, and the duels."""

    part: Part
    duels: list[Duel]


def plan(
    name: str,
    target: str,
    tasks: list[str],
    rule: str,
    temperatures: list[float],
    rows: list[int],
    prompts: int,
    allow_code_execution: bool,
) -> Grid:
    """The grid of a drafter beside the shipped ones that draft for this target and rule.

    `tasks`: of a tiny target, all tiny ones by default. Raises UserError on a name or value that is none.
    """
    spec, mine = catalog.spec(target), drafters.known(name)
    if not (tasks := tasks or (harness.shipped() if spec.tiny else [])):
        raise UserError(f"{target} is no tiny target: say on which --task")
    policy = spec.policy(1, rule=parse_rule(rule))
    beside = grid.read("drafters" if rule == "exact" else "drafters-sets").drafters
    others = [x for x in beside if x != mine and not drafters.uncoupled(x) and _drafts_for(x, target, policy)]
    return grid.of(
        name=re.sub("[^a-z0-9]+", "-", f"compare-{target}".lower())[:64],
        about=f"{mine} among others.",
        targets=[target],
        tasks=tasks,
        temperatures=temperatures,
        rules=[rule],
        drafters=[*others, name],
        rows=rows,
        prompts=prompts,
        device="replay",
        allow_code_execution=allow_code_execution or spec.tiny,  # as the shipped grids of tiny targets, in the sandbox
    )


def _drafts_for(name: str, target: str, policy: Policy) -> bool:
    """Whether a drafter is calibrated for a target, where it has to be."""
    try:
        drafters.make(name).attach(target, policy)
    except UserError:
        return False
    return True


def compare(store: Store, wanted: Grid, name: str) -> Iterator[Comparison]:
    """Of what is finished of a plan."""
    for part in tables.parts(frame.build(store, wanted.cells())):
        fought = list(duel.duels(part.frame, name, least_rows=2))
        order = sorted(part.lines, key=lambda line: (line.rows, line.drafter not in BOUNDS, line.reduction.low))
        yield Comparison(replace(part, lines=order), fought)


def verdict(x: Duel) -> str:
    """In a word: the whole interval above 1, below, or neither."""
    return "ahead" if x.pooled.low > 1 else "behind" if x.pooled.high < 1 else "level"
