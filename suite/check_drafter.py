"""`spotbench check-drafter`: whether a drafter keeps the rules, what it costs, and where it stands.

On a tiny target, in float64, where no two shapes of a pass differ enough to matter; on prompts of a task's train split.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import drafters
import tasks.harness
from drafters import Drafter, DraftError, DraftView
from drafters.guard import DraftTimeoutError
from suite import trace
from suite.cells import Cell
from suite.decoding.decode import Decoded, Pass, decode
from suite.decoding.rules import parse_rule
from suite.decoding.state import State, Visit
from suite.errors import UserError, first_line
from suite.measure.lossless import diverge
from suite.targets import catalog, checkpoint, load
from suite.targets.base import Target
from suite.trace import Header, PromptTrace
from tasks.harness import Request, Task

TARGET, TASK, PROMPTS = "tiny-sdar-b16", "tiny-ifeval", 3
SETTINGS = list(product((0.0, 1.0), ("exact", "threshold(0.9)")))
ROWS = (2, 5, 17)
BESIDE = ("none", "chain", "best-first")
"""Drafters that a newcomer is shown beside."""

CHECKS = {
    "legal": "it raises nothing, ends in time, and proposes states that the interface allows",
    "lossless": "its decode goes through the baseline's states",
    "deterministic": "the same view gives the same proposals, twice in a row and from a fresh drafter",
    "replayable": "a replay from the baseline's trace has the passes of the live decode",
}


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong, in one line; `check` is a key of CHECKS."""

    check: str
    detail: str


@dataclass(frozen=True)
class Finding:
    """What one setting showed.

    `passes`: mean verify passes per prompt, by drafter; the checked one is among them if its decodes came to an end.
    `live`: the passes of those decodes.
    """

    temperature: float
    rule: str
    rows: int
    passes: dict[str, float]
    live: tuple[Pass, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def setting(self) -> str:
        return f"T={self.temperature:g} {self.rule} {self.rows} rows"


@dataclass(frozen=True)
class Cost:
    """Drafting: mean and worst time of a pass [ms], and its share of the decode time."""

    mean_ms: float
    worst_ms: float
    share: float


def check(name: str) -> Iterator[Finding]:
    """Check a drafter, by its name or as `file.py:Class`, setting by setting; one that hangs is not asked again.

    Raises UserError when there is no such drafter, or it says itself that it cannot draft for the tiny target.
    """
    name = drafters.known(name)
    target, task = load.load(catalog.spec(TARGET), "cpu", "float64"), tasks.harness.load(TASK)
    requests = task.train_requests(target.chat, PROMPTS)
    for temperature, rule in SETTINGS:
        bench = _Bench(name, target, task, requests, temperature, rule)
        for rows in ROWS:
            try:
                live, faults = bench.examine(rows)
            except DraftTimeoutError as error:
                yield Finding(temperature, rule, rows, bench.beside(rows), faults=(Fault("legal", str(error)),))
                return
            except DraftError as error:
                yield Finding(temperature, rule, rows, bench.beside(rows), faults=(Fault("legal", str(error)),))
                continue
            passes = tuple(one for decoded in live for one in decoded.passes)
            standing = bench.beside(rows) | {name: len(passes) / PROMPTS}
            yield Finding(temperature, rule, rows, standing, passes, tuple(faults))


def fault_lines(findings: Sequence[Finding]) -> list[str]:
    """One line for each fault: what it is, the first setting it came up in, and how many more there are."""
    where: dict[Fault, list[str]] = {}
    for finding in findings:
        for fault in dict.fromkeys(finding.faults):
            where.setdefault(fault, []).append(finding.setting)
    return [
        f"{fault.check}: {fault.detail} ({at[0]}{f' and {len(at) - 1} more' * (len(at) > 1)})"
        for fault, at in where.items()
    ]


def cost(findings: Sequence[Finding]) -> Cost | None:
    """None if no decode came to an end."""
    passes = [one for finding in findings for one in finding.live]
    if not passes:
        return None
    times = [one.draft_s for one in passes]
    whole = sum(one.draft_s + one.verify_s + one.host_s for one in passes)
    return Cost(1e3 * sum(times) / len(times), 1e3 * max(times), sum(times) / whole)


class _Bench:
    """One temperature and rule: the baseline's traces, and what a drafter makes of them."""

    def __init__(
        self, name: str, target: Target, task: Task, requests: Sequence[Request], temperature: float, rule: str
    ) -> None:
        spec = target.spec
        self.name, self.target, self.requests = name, target, requests
        self.policy = spec.policy(task.max_new_tokens, rule=parse_rule(rule), temperature=temperature)
        cell = Cell(
            TARGET, TASK, temperature, rule, 0, "none", 1, PROMPTS, context=target.context_policy, dtype=target.dtype
        )
        self.header: Header = trace.header(cell, target, checkpoint.weights_hash(spec), task, self.policy, "train")
        self.traces = [trace.record_one(self.header, target, request) for request in requests]
        self._beside: dict[int, dict[str, float]] = {}

    def beside(self, rows: int) -> dict[str, float]:
        """Passes per prompt of the drafters that everybody knows."""
        if rows not in self._beside:
            self._beside[rows] = {
                name: sum(len(trace.replay(one, self.header, drafters.make(name), rows)) for one in self.traces)
                / len(self.traces)
                for name in BESIDE
            }
        return self._beside[rows]

    def examine(self, rows: int) -> tuple[list[Decoded], list[Fault]]:
        """Live decodes, and what is wrong with them. Raises DraftError on what is illegal."""
        kept = _Witness(self._fresh())  # one drafter for all prompts, as in a run
        replayed = [trace.replay(one, self.header, kept, rows) for one in self.traces]
        drafter, live = self._fresh(), []
        for request, one in zip(self.requests, self.traces, strict=True):
            prompt = self.target.encode(request.prompt)
            live.append(decode(self.target, prompt, self.policy, drafter, rows, one.seed, one.visits))
        faults = [fault for one, done in zip(self.traces, live, strict=True) for fault in self._lossy(one, done)]
        if unsteady := self._unsteady(kept.proposed, rows):
            return live, [*faults, Fault("deterministic", unsteady)]
        for one, mine, done in zip(self.traces, replayed, live, strict=True):
            if [(p.rows, p.depth) for p in mine] != [(p.rows, p.depth) for p in done.passes]:
                detail = f"prompt {one.doc_id} takes {len(done.passes)} passes live, {len(mine)} in a replay"
                faults.append(Fault("replayable", f"{detail}; does it read anything but its view?"))
        return live, faults

    def _lossy(self, one: PromptTrace, done: Decoded) -> Iterator[Fault]:
        if done.visits != one.visits:
            prompt = self.target.encode(self.requests[one.doc_id].prompt)
            at = diverge(self.target, prompt, self.policy, one.seed, one.visits, done.visits)
            if not at.tie:
                where = f"block {at.block}, step {at.step}, position {at.position}"
                yield Fault("lossless", f"prompt {one.doc_id} leaves the baseline in {where}")

    def _unsteady(self, proposed: Sequence[list[State]], rows: int) -> str:
        """How other drafters than the one that proposed this differ from it; empty if they do not."""
        twice = []
        for one in self.traces:
            fresh = _Twice(self._fresh())
            trace.replay(one, self.header, fresh, rows)
            if fresh.differed:
                return f"asked twice about one view, drafter {self.name} proposes two things"
            twice += fresh.proposed
        if twice != proposed:
            return f"a fresh drafter {self.name} proposes other things than one that has seen other prompts"
        return ""

    def _fresh(self) -> Drafter:
        try:
            drafter = drafters.make(self.name)
            drafter.attach(TARGET, self.policy)
        except UserError:
            raise
        except (Exception, SystemExit) as error:
            what = f"{type(error).__name__} when it was made: {first_line(error)}"
            raise DraftError(f"drafter {self.name} raised {what}") from error
        return drafter


class _Witness(Drafter):
    """Another drafter, and all that it proposed."""

    def __init__(self, inner: Drafter) -> None:
        self.inner, self.name, self.needs_future = inner, inner.name, inner.needs_future
        self.proposed: list[list[State]] = []

    def start(self, future: Sequence[Visit]) -> None:
        self.inner.start(future)

    def propose(self, view: DraftView, rows: int) -> list[State]:
        drafts = self.inner.propose(view, rows)
        self.proposed.append(list(drafts) if isinstance(drafts, list) else drafts)
        return drafts


class _Twice(_Witness):
    """Asks twice. `differed`: whether some second answer was another."""

    differed = False

    def propose(self, view: DraftView, rows: int) -> list[State]:
        drafts = super().propose(view, rows)
        self.differed |= self.inner.propose(view, rows) != self.proposed[-1]
        return drafts
