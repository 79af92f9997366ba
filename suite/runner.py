"""One bundle, start to finish: load the target once, decode prompt by prompt, resume where it stopped."""

import hashlib
import traceback
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import torch

import drafters
import tasks.harness
from drafters import Drafter
from suite import deaths, machine, records
from suite.cells import Bundle, Cell
from suite.decoding.decode import Decoded, decode
from suite.decoding.noise import request_seed
from suite.decoding.policy import Policy
from suite.decoding.rules import parse_rule
from suite.errors import UserError
from suite.measure import degenerate
from suite.measure.lossless import diverge
from suite.measure.passes import as_steps
from suite.measure.stale import StaleWatch
from suite.records import Manifest, Sample, Stale, Step, Visit
from suite.store import Store
from suite.targets import catalog, checkpoint, load
from suite.targets.base import Target
from tasks import answers, sandbox
from tasks.harness import Request, Task

STEPS_KEPT = 2
"""Prompts per cell whose passes are written one by one."""

Progress = Callable[[str, int, int], None]
"""Called with what is happening, prompts done and prompts in all."""


@dataclass
class Method:
    """One cell of the bundle with its drafter."""

    cell: Cell
    drafter: Drafter


def run_bundle(
    bundle: Bundle, store: Store, allow_code_execution: bool, progress: Progress, leave: Collection[str] = ()
) -> bool:
    """Run what is missing of a bundle, but for the cells whose ids are in `leave`; True when every cell is done.

    A method that fails is recorded and left out, and the others go on; if the baseline fails, the bundle ends.
    Raises UserError when nothing can run.
    """
    started = datetime.now(UTC).isoformat(timespec="seconds")
    process = uuid.uuid4().hex
    turns = turns_of(bundle, store, leave)
    if turns:
        with store.watch(bundle, process) as at:
            at(bundle.baseline)
            progress(f"loading {bundle.baseline.target}, {bundle.baseline.task}", 0, 0)
            run = _Run(bundle, store, session_of(bundle, allow_code_execution), process, started, progress, at)
            try:
                for cells in turns:
                    run.turn(cells)
            except _BaselineError:
                return False
    if complete := all(map(store.done, bundle.cells)):
        store.clear(bundle)
    return complete


def turns_of(bundle: Bundle, store: Store, leave: Collection[str] = ()) -> list[list[Cell]]:
    """The missing cells of a bundle in the order they are to be run: those that killed a process last, each alone.

    One that killed too many is recorded as failed, and no more run.
    """
    died = store.deaths(bundle)
    turns: list[list[Cell]] = [[]]
    for cell in bundle.cells:
        if store.done(cell) or cell.id in leave:
            continue
        if (times := max(died[cell.id], died[bundle.baseline.id])) >= deaths.LIMIT:
            whose = "it" if died[cell.id] >= deaths.LIMIT else "its baseline"
            if not any(failure.error == deaths.GivenUpError.__name__ for failure in store.failed(cell)):
                said = f"{whose} killed {times} processes; it is tried again once the folder partial is removed"
                fail(store, cell, deaths.GivenUpError(said))
        elif died[cell.id] and not cell.is_baseline:
            turns.append([cell])
        else:
            turns[0].append(cell)
    return [turn for turn in turns if turn]


class _BaselineError(Exception):
    """The baseline failed, and with it its bundle."""


@dataclass
class _Run:
    """A bundle that is being run by `process`."""

    bundle: Bundle
    store: Store
    session: "Session"
    process: str
    started: str
    progress: Progress
    at: deaths.At

    def __post_init__(self) -> None:
        self.session.at = self.at
        version = (self.session.weights, self.session.task.version)
        self.visited = [v for v in self.store.visits(self.bundle) if (v.weights, v.task) == version]
        self.died = set(self.store.deaths(self.bundle))

    def turn(self, cells: Sequence[Cell]) -> None:
        """Run some of the cells together."""
        store, baseline, requests = self.store, self.bundle.baseline, self.session.requests
        methods = self._methods(cells)
        have = {(visit.doc_id, cell) for visit in self.visited for cell in visit.samples}
        warm = False
        for n, request in enumerate(requests):
            todo = [method for method in methods if (request.doc_id, method.cell.id) not in have]
            if todo:
                if not warm:
                    self.progress("warming up", n, len(requests))
                    self.session.warm_up(methods)
                    warm = True
                self.progress(f"{baseline.task} T={baseline.temperature:g}", n, len(requests))
                try:
                    visit, failures = self.session.visit(n, request, todo)
                except UserError:
                    raise
                except Exception as error:  # without its baseline a bundle ends; the next one may not
                    fail(store, baseline, error)
                    raise _BaselineError from error
                for cell, fault in failures.items():
                    fail(store, cell, fault)
                methods = [method for method in methods if method.cell not in failures]
                store.append(self.bundle, visit, self.process)
                self.visited.append(visit)
                if lived := self.died & {baseline.id, *visit.samples}:  # they get on, however slowly
                    store.forget_deaths(self.bundle, lived, but=self.process)
                    self.died -= lived
        self.progress(f"writing {baseline.task}", len(requests), len(requests))
        for method in methods:
            samples, steps = _collect(method.cell, self.visited)
            attempts = max(1, store.attempts(self.bundle))
            told = manifest(method.cell, self.session.settings(), self.started, attempts)
            store.finish(method.cell, told, samples, steps, self.session.task.metric)

    def _methods(self, cells: Sequence[Cell]) -> list[Method]:
        methods, files = [], dict(self.bundle.files)
        for cell in cells:
            self.at(cell)
            try:
                drafter = drafters.make(cell.drafter, files.get(cell.drafter, ""))
                drafter.attach(cell.target, self.session.policy)
                methods.append(Method(cell, drafter))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - anybody's code
                fail(self.store, cell, error)
        return methods


def prepare(cell: Cell, source: str) -> tuple[Target, Task, list[Request]]:
    """A cell's target, task and prompts. Raises UserError when this machine or the task cannot give them."""
    task = tasks.harness.load(cell.task)
    if cell.device != "cpu" and not torch.cuda.is_available():
        raise UserError('device: this machine has no GPU that torch can use; set device = "cpu" in the grid file')
    spec = catalog.spec(cell.target, source)
    target = load.load(spec, cell.device, cell.dtype, cell.layout, cell.context)
    if room(cell, task) >= spec.context_limit:
        raise UserError(
            f"task {task.name}: its {room(cell, task)} tokens for an answer leave no room for a prompt in the "
            f"{spec.context_limit} of {spec.name}; set max_new_tokens in the grid file to less"
        )
    requests = task.requests(target.chat, cell.prompts or None)
    if len(requests) < cell.prompts:
        raise UserError(
            f"task {task.name} has {len(requests)} prompts, fewer than the grid's {cell.prompts}; "
            "set prompts = 0 for all of them"
        )
    return target, task, requests


def reference_policy(cell: Cell, target: Target, task: Task) -> Policy:
    """All that decides the tokens of a cell besides target, prompt and seed; the same for every method of a bundle."""
    return target.spec.policy(
        room(cell, task),
        rule=parse_rule(cell.rule),
        temperature=cell.temperature,
        top_k=cell.top_k,
        top_p=cell.top_p,
        commit=cell.commit,
    )


def room(cell: Cell, task: Task) -> int:
    """For an answer [tokens]."""
    return cell.max_new_tokens or task.max_new_tokens


def session_of(bundle: Bundle, allow_code_execution: bool, scored: bool = True) -> "Session":
    """`scored`: its answers will be, so the task proves first that it can score.

    Raises UserError when the bundle cannot run.
    """
    task = bundle.baseline.task
    if tasks.harness.facts(task).executes_code and not allow_code_execution:
        raise UserError(f"task {task} runs model-written code: set allow_code_execution = true in the grid file")
    target, loaded, requests = prepare(bundle.baseline, bundle.source)
    if scored:
        loaded.self_check()
    return Session(bundle, target, loaded, requests)


def fail(store: Store, cell: Cell, error: BaseException) -> None:
    store.fail(cell, error, "".join(traceback.format_exception(error)))


class Session:
    """A loaded bundle. It tells `at` the cell that it is at."""

    at: deaths.At = staticmethod(lambda *cells: None)

    def __init__(self, bundle: Bundle, target: Target, task: Task, requests: Sequence[Request]) -> None:
        cell = bundle.baseline
        self.bundle, self.target, self.task, self.requests = bundle, target, task, requests
        self.baseline = Method(cell, drafters.make(cell.drafter))
        self.weights = checkpoint.weights_hash(target.spec)
        self.policy = reference_policy(cell, target, task)

    def warm_up(self, methods: Sequence[Method]) -> None:
        """Every method once on a short canvas, so that no first call of a shape is timed."""
        policy = replace(self.policy, max_new_tokens=self.policy.block_size)
        prompts = (self.target.encode(request.prompt) for request in self.requests)
        ids = next((ids for ids in prompts if not self.target.spec.overflow(len(ids), self.policy.max_new_tokens)), [])
        for method in [self.baseline, *methods]:
            self.at(method.cell)
            try:
                decode(self.target, ids, policy, method.drafter, method.cell.rows)
            except Exception:  # noqa: BLE001 - the same fault comes again where it is recorded
                continue

    def visit(self, n: int, request: Request, todo: Sequence[Method]) -> tuple[Visit, dict[Cell, Exception]]:
        """One prompt: the baseline and the fair methods in rotated order, then those that read its future."""
        prompt = self.target.encode(request.prompt)
        if fault := self.target.spec.overflow(len(prompt), self.policy.max_new_tokens):
            none = _unanswered(request, len(prompt), fault)
            samples = {method.cell.id: none for method in todo}
            return Visit(request.doc_id, samples, {}, self.weights, self.task.version), {}
        seed = request_seed(self.bundle.baseline.seed, request.prompt)
        others = [method for method in todo if method.cell != self.baseline.cell]
        fair = [self.baseline, *(method for method in others if not method.drafter.needs_future)]
        turn = n % len(fair)
        order = fair[turn:] + fair[:turn] + [method for method in others if method.drafter.needs_future]
        decoded: dict[Cell, Decoded] = {}
        failures: dict[Cell, Exception] = {}
        for method in order:
            future = decoded[self.baseline.cell].visits if method.drafter.needs_future else ()
            self.at(method.cell)
            try:
                decoded[method.cell] = decode(
                    self.target, prompt, self.policy, method.drafter, method.cell.rows, seed, future
                )
            except Exception as error:
                if method is self.baseline:
                    raise
                failures[method.cell] = error
        baseline = decoded[self.baseline.cell]
        stale = self._stale(prompt, seed) if any(method.cell.is_baseline for method in todo) else None
        samples = {}
        steps: dict[str, list[Step]] = {}
        for cell in [method.cell for method in todo if method.cell in decoded]:
            one = decoded[cell]
            self.at(cell)
            try:
                sample = self._sample(request, prompt, seed, one, baseline, stale if cell.is_baseline else None)
            except Exception as error:
                if cell.is_baseline:
                    raise
                failures[cell] = error
                continue
            samples[cell.id] = sample
            if n < STEPS_KEPT:
                steps[cell.id] = as_steps(request.doc_id, one.passes, one.visits)
        return Visit(request.doc_id, samples, steps, self.weights, self.task.version), failures

    def _sample(
        self,
        request: Request,
        prompt: Sequence[int],
        seed: int,
        one: Decoded,
        baseline: Decoded,
        stale: Stale | None,
    ) -> Sample:
        said = answers.read(self.target, request.prompt, one.tokens, request.until)
        exact = one.tokens == baseline.tokens
        divergence = None
        if not exact:
            divergence = diverge(self.target, prompt, self.policy, seed, baseline.visits, one.visits)
        return Sample(
            doc_id=request.doc_id,
            prompt_hash=_hash(request.prompt),
            prompt_tokens=len(prompt),
            tokens=list(one.tokens),
            text=said.text,
            finish=said.finish,
            prefill_passes=one.prefill_passes,
            verify_passes=len(one.passes),
            commit_passes=one.commit_passes,
            rows=sum(p.rows for p in one.passes),
            depths=[p.depth for p in one.passes],
            prefill_s=one.prefill_s,
            draft_s=sum(p.draft_s for p in one.passes),
            verify_s=sum(p.verify_s for p in one.passes) + one.commit_s,
            host_s=sum(p.host_s for p in one.passes),
            baseline_passes=len(baseline.passes) + baseline.commit_passes,
            baseline_s=baseline.decode_s,
            exact_match=exact,
            empty=degenerate.is_empty(said.text),
            repetitive=degenerate.is_repetitive(one.tokens, said.finish),
            scores=self.task.score(request.doc_id, said.text),
            divergence=divergence,
            stale=stale,
            question=request.question,
        )

    def _stale(self, prompt: Sequence[int], seed: int) -> Stale:
        """What earlier passes knew, from one more decode: watching takes time, so nothing timed is watched."""
        self.at(self.baseline.cell)
        watch = StaleWatch(self.policy, seed)
        decode(self.target, prompt, self.policy, self.baseline.drafter, seed=seed, watch=watch)
        return watch.counts

    def settings(self) -> dict[str, Any]:
        """What a manifest says besides the cell."""
        return {
            "block_size": self.policy.block_size,
            "max_new_tokens": self.policy.max_new_tokens,
            "confidence": self.policy.confidence,
            "family": self.target.spec.family.name,
            "task_version": self.task.version,
            "metric": self.task.metric,
            "sandbox": sandbox.walls().told if self.task.executes_code else "",
            "weights": self.weights,
            "tiny": self.target.spec.tiny,
            "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        }


def manifest(cell: Cell, settings: dict[str, Any], started: str, attempts: int = 1) -> Manifest:
    """Of a cell that this process has brought to its end."""
    return Manifest(
        schema=records.SCHEMA,
        cell_id=cell.id,
        cell=records.as_json(cell),
        settings=settings,
        versions=machine.versions(),
        code=machine.code_hash(),
        hardware=machine.hardware(),
        attempts=attempts,
        peak_memory_mib=machine.peak_memory_mib(),
        started=started,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _unanswered(request: Request, prompt_tokens: int, fault: str) -> Sample:
    """The sample of a prompt that cannot be decoded: no answer, so no score."""
    return Sample(
        doc_id=request.doc_id,
        prompt_hash=_hash(request.prompt),
        prompt_tokens=prompt_tokens,
        tokens=[],
        text="",
        finish="error",
        prefill_passes=0,
        verify_passes=0,
        commit_passes=0,
        rows=0,
        depths=[],
        prefill_s=0.0,
        draft_s=0.0,
        verify_s=0.0,
        host_s=0.0,
        baseline_passes=0,
        baseline_s=0.0,
        exact_match=False,
        empty=False,
        repetitive=False,
        scores={},
        question=request.question,
        error=fault,
    )


def _hash(prompt: str) -> str:
    return hashlib.sha256(prompt.encode()).hexdigest()[:16]


def _collect(cell: Cell, visits: Sequence[Visit]) -> tuple[list[Sample], list[Step]]:
    """A cell's samples in the task's order; where two processes did the same prompt, the first one counts."""
    samples: dict[int, Sample] = {}
    steps: dict[int, list[Step]] = {}
    for visit in visits:
        if cell.id in visit.samples and visit.doc_id not in samples:
            samples[visit.doc_id] = visit.samples[cell.id]
            steps[visit.doc_id] = visit.steps.get(cell.id, [])
    order = sorted(samples)
    return [samples[doc] for doc in order], [step for doc in order for step in steps[doc]]
