"""Calibration: which formulas a target's own decodes reach most, counted once, offline, on train prompts.

Both lists of a calibration are chosen greedily, so that the first D formulas are the graph of D states for every D.
"""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drafters.base import DrafterCard
from drafters.formulas import POSITION_RANKS, TOKEN_RANKS, Formula, Pair, named, pairs
from suite.decoding.policy import Policy
from suite.errors import UserError, first_line
from suite.files import replace_file, writing

if TYPE_CHECKING:  # suite.trace replays drafters, hence imports them
    from suite.trace import Header, PromptTrace

VERSION = 1
MOST = 64
"""Formulas kept in each list."""
STEPS_AHEAD = 8
SHIPPED = Path(__file__).parent / "calibrations"
FOLDER = "SPOTBENCH_CALIBRATIONS"
"""Environment variable: the folder of a user's own calibrations, which come before the shipped ones."""

Paths = Counter[Formula]
"""How many passes were followed by each path."""

Node = frozenset[Pair]


@dataclass(frozen=True)
class Calibration:
    """Formulas, best first, and what they were counted on.

    `accumulated`: by degree-1 accumulation (Spiffy's choice). `covering`: by greedy coverage. `scale`, `bias`: fit the
    logits of `spot-sets` to the target, if its weights are those of the hash `network`. `weights`: the hash of the
    checkpoint. `prompts`, `passes`: how many were counted, over all tasks. `seeds`: of the noise.
    """

    target: str
    weights: str
    rule: str
    temperature: float
    tasks: tuple[str, ...]
    split: str
    seeds: tuple[int, ...]
    prompts: int
    passes: int
    accumulated: tuple[Formula, ...]
    covering: tuple[Formula, ...]
    scale: float = 1.0
    bias: float = 0.0
    network: str = ""
    version: int = VERSION

    @property
    def card(self) -> DrafterCard:
        """Of a drafter that has nothing but this."""
        content = json.dumps(asdict(self), sort_keys=True).encode()
        return DrafterCard(
            "calibrated",
            home=self.target,
            tasks=self.tasks,
            split=self.split,
            data=hashlib.sha256(content).hexdigest()[:16],
        )


def calibrate(traces: "Iterable[tuple[Header, PromptTrace]]") -> Calibration:
    """Raises UserError on traces of evaluation items, of different targets, rules or temperatures, or on none."""
    from drafters import spot, spot_sets  # which reads calibrations

    traces = list(traces)
    of: set[tuple[str, str, str, float]] = set()
    tasks, seeds, paths, prompts = set(), set(), Paths(), 0
    for header, one in traces:
        if header.split != "train":
            raise UserError(
                f"the trace of {header.target} on {header.task} is of the {header.split} split; "
                "calibrate on the train split only"
            )
        of.add((header.target, header.weights, header.rule, header.temperature))
        tasks.add(header.task)
        seeds.add(header.seed)
        prompts += 1
        paths.update(count([(header, one)]))
    if len(of) != 1:
        raise UserError(
            f"calibrate on traces of one target, rule and temperature: got {sorted(of)}" if of else "no traces"
        )
    ((target, weights, rule, temperature),) = of
    scale, bias, network = 1.0, 0.0, ""
    if rule != "exact":
        scale, bias = spot_sets.fit(traces)
        network = spot.weights_hash(spot_sets.SpotSets.weights)
    return Calibration(
        target=target,
        weights=weights,
        rule=rule,
        temperature=temperature,
        tasks=tuple(sorted(tasks)),
        split="train",
        seeds=tuple(sorted(seeds)),
        prompts=prompts,
        passes=paths.total(),
        accumulated=tuple(accumulate(paths)),
        covering=tuple(cover(paths)),
        scale=scale,
        bias=bias,
        network=network,
    )


def count(traces: "Iterable[tuple[Header, PromptTrace]]", steps_ahead: int = STEPS_AHEAD) -> Paths:
    """The path that followed each pass, at most `steps_ahead` steps of it, in ranks of that pass's distribution."""
    paths = Paths()
    for header, one in traces:
        policy = header.policy
        for steps in one.blocks:
            for n, stale in enumerate(steps[:-1]):
                view = stale.view(stale.after, policy, one.seed)
                paths[named(view, [step.after for step in steps[n + 1 : n + 1 + steps_ahead]])] += 1
    return paths


def accumulate(paths: Paths, most: int = MOST) -> list[Formula]:
    """Spiffy's choice: grow a connected graph by the state with the largest count of itself and its direct parents.

    A direct parent is a state that a recorded step led from. Ties: the larger count, the smaller depth, the lower
    pairs.
    """
    graph = _Graph(paths)
    score = {
        node: graph.counts[node] + sum(graph.counts[parent] for parent in parents if parent)
        for node, parents in graph.parents.items()
    }
    while len(graph.formulas) < most and (frontier := graph.frontier()):
        graph.add(min(frontier, key=lambda node: (-score[node], *graph.order(node))))
    return graph.formulas


def cover(paths: Paths, most: int = MOST) -> list[Formula]:
    """Grow a graph by the state that adds most to `reached`; ties as in `accumulate`."""
    graph = _Graph(paths)
    open_ = [([pairs(path[:n]) for n in range(1, len(path) + 1)], passes) for path, passes in paths.items() if path]
    while len(graph.formulas) < most and open_:
        gains = Counter[Node]()
        for nodes, passes in open_:
            gains[nodes[0]] += passes * (1 + _reach(nodes[1:], graph.chosen))
        best = min(gains, key=lambda node: (-gains[node], *graph.order(node)))
        graph.add(best)
        open_ = [(nodes[_reach(nodes, graph.chosen) :], passes) for nodes, passes in open_]
        open_ = [(nodes, passes) for nodes, passes in open_ if nodes]
    return graph.formulas


def reached(formulas: Iterable[Formula], paths: Paths) -> float:
    """How many consecutive states of its path a pass finds among the formulas, on average: the accepted depth."""
    chosen = {pairs(formula) for formula in formulas}
    found = sum(
        passes * _reach([pairs(path[:n]) for n in range(1, len(path) + 1)], chosen) for path, passes in paths.items()
    )
    return found / max(1, paths.total())


def find(target: str, policy: Policy) -> Calibration:
    """The calibration for a target and a policy: for its temperature if there is one, else for T = 0.

    Raises UserError when there is none, or the one there is damaged.
    """
    rule = str(policy.rule)
    for temperature in dict.fromkeys([policy.temperature, 0.0]):
        for folder in (home(), SHIPPED):
            if (path := folder / file_name(target, rule, temperature)).exists():
                return read(path, target, rule, temperature)
    made_by = f"spotbench calibrate --target {target} --rule '{rule}'"
    raise UserError(f"no calibration of {target} for the rule {rule}; {made_by} makes it")


def home() -> Path:
    """The folder of the user's own calibrations."""
    return Path(os.environ.get(FOLDER) or "calibrations")


def file_name(target: str, rule: str, temperature: float) -> str:
    """A plain name, whatever the rule is called; T = 0 goes without saying."""
    parts = [target, rule, f"t{temperature:g}" if temperature else "", "json"]
    return ".".join(re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip("-.") for part in parts if part)


def write(calibration: Calibration, folder: Path) -> Path:
    """Write under its name in `folder`, over what was there, and say where."""
    path = folder / file_name(calibration.target, calibration.rule, calibration.temperature)
    fields = (f" {json.dumps(name)}: {json.dumps(value)}" for name, value in asdict(calibration).items())
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, ("{\n" + ",\n".join(fields) + "\n}\n").encode())
    return path


def read(path: Path, target: str, rule: str, temperature: float) -> Calibration:
    """Raises UserError when the file is damaged, of another version, or not of this target, rule and temperature."""
    mend = f"remove it, then: spotbench calibrate --target {target} --rule '{rule}' --temperature {temperature:g}"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["version"] != VERSION:
            raise ValueError(f"version {found['version']}, this spotbench reads {VERSION}")
        if (is_of := (found["target"], found["rule"], found["temperature"])) != (target, rule, temperature):
            raise ValueError(f"it is of {' '.join(map(str, is_of))}")
        lists = {name: _formulas(found[name]) for name in ("accumulated", "covering")}
        return Calibration(**found | lists | {name: tuple(found[name]) for name in ("tasks", "seeds")})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not a calibration ({first_line(error)}); {mend}") from error


class _Graph:
    """All recorded states, and those chosen so far as formulas: each one adds a step to one before it.

    A state gets the order of the chosen parent that most recorded steps led from.
    """

    def __init__(self, paths: Paths) -> None:
        self.counts: Counter[Node] = Counter()
        self.parents: dict[Node, Counter[Node]] = {}
        self.depths: dict[Node, int] = {}
        self.formulas: list[Formula] = []
        self.chosen: dict[Node, Formula] = {frozenset(): ()}
        for path, passes in paths.items():
            for depth in range(1, len(path) + 1):
                before, node = pairs(path[: depth - 1]), pairs(path[:depth])
                self.counts[node] += passes
                self.parents.setdefault(node, Counter())[before] += passes
                self.depths[node] = min(depth, self.depths.get(node, depth))

    def frontier(self) -> list[Node]:
        return [
            node for node, parents in self.parents.items() if node not in self.chosen and parents.keys() & self.chosen
        ]

    def order(self, node: Node) -> tuple[int, int, list[Pair]]:
        """What decides between states of the same merit."""
        return -self.counts[node], self.depths[node], sorted(node)

    def add(self, node: Node) -> None:
        parents = {parent: steps for parent, steps in self.parents[node].items() if parent in self.chosen}
        parent = min(parents, key=lambda one: (-parents[one], sorted(one)))
        self.chosen[node] = (*self.chosen[parent], tuple(sorted(node - parent)))
        self.formulas.append(self.chosen[node])


def _reach(nodes: Sequence[Node], chosen: Iterable[Node]) -> int:
    """How many of `nodes` are chosen before the first that is not."""
    return next((n for n, node in enumerate(nodes) if node not in chosen), len(nodes))


def _formulas(found: Any) -> tuple[Formula, ...]:
    """Checked: within the ranks, and each after the one it adds a step to."""
    formulas = tuple(tuple(tuple((i, j) for i, j in step) for step in formula) for formula in found)
    known: set[Formula] = {()}
    for formula in formulas:
        positions = [i for step in formula for i, _ in step]
        whole = all(formula) and len(set(positions)) == len(positions)
        inside = all(0 <= i < POSITION_RANKS and 0 <= j < TOKEN_RANKS for i, j in pairs(formula))
        if formula in known or formula[:-1] not in known or not whole or not inside:
            raise ValueError(f"{formula} is no formula, or is out of order")
        known.add(formula)
    return formulas
