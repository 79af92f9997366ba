"""Traces: what the baseline saw and did, recorded once, so that drafters can be tried without the target.

Every method emits the baseline's tokens, so the states it visits are the baseline's. What the baseline saw at each of
them is all that a drafter ever reads, and what it did next is all that verification compares with: `replay` needs no
target, and gives the passes, depths and rows of a live decode.

On disk a trace is a folder: `trace.json` says what was recorded, `<doc id>.safetensors` holds one prompt. A step takes
8 bytes for each of the 32 tokens kept at each masked position, so a committed token costs about 130 bytes times the
block size (2.1 kB at 16 positions, 4.2 kB at 32).
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

import drafters
from drafters.base import Drafter, DraftView, spread, top_tokens
from drafters.guard import begin, proposals
from suite.cells import Cell
from suite.decoding.decode import Pass, decode
from suite.decoding.noise import request_seed
from suite.decoding.policy import Policy, Prediction, score
from suite.decoding.rules import parse_rule
from suite.decoding.state import MASK, State, Visit, masked
from suite.errors import UserError, first_line
from suite.files import publish, writing
from suite.measure.clock import Clock
from suite.measure.stale import StaleWatch
from suite.targets.base import Target
from tasks import answers
from tasks.harness import Request, Task

SCHEMA = 1
Split = Literal["test", "train"]


@dataclass(frozen=True)
class Header:
    """What a trace is of. Traces that differ in any of it are not the same."""

    target: str
    weights: str
    context: str
    dtype: str
    task: str
    task_version: str
    split: Split
    seed: int
    block_size: int
    vocab_size: int
    max_new_tokens: int
    rule: str
    temperature: float
    top_k: int
    top_p: float
    confidence: str
    commit: str
    schema: int = SCHEMA

    @property
    def policy(self) -> Policy:
        return Policy(
            block_size=self.block_size,
            max_new_tokens=self.max_new_tokens,
            rule=parse_rule(self.rule),
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            confidence=self.confidence,  # type: ignore[arg-type]
            commit=self.commit,  # type: ignore[arg-type]
        )


class MissingTraceError(UserError):
    """Nothing was recorded yet."""


def header(cell: Cell, target: Target, weights: str, task: Task, policy: Policy, split: Split = "test") -> Header:
    return Header(
        target=cell.target,
        weights=weights,
        context=cell.context,
        dtype=cell.dtype,
        task=task.name,
        task_version=task.version,
        split=split,
        seed=cell.seed,
        block_size=policy.block_size,
        vocab_size=target.spec.vocab_size,
        max_new_tokens=policy.max_new_tokens,
        rule=str(policy.rule),
        temperature=policy.temperature,
        top_k=policy.top_k,
        top_p=policy.top_p,
        confidence=policy.confidence,
        commit=policy.commit,
    )


@dataclass(frozen=True)
class Step:
    """One step of the baseline: `state` became `after`.

    `log_probs` and `token_ids` `[masked, k]`: the most likely tokens at the masked positions of `state`, tempered,
    best first. `margins` `[masked]`: how far the drawn token's score leads the next one's.
    """

    block: int
    state: State
    after: State
    log_probs: Tensor
    token_ids: Tensor
    margins: Tensor

    @property
    def committed(self) -> list[int]:
        """The positions that the step filled, ascending."""
        return [i for i, (old, new) in enumerate(zip(self.state, self.after, strict=True)) if old != new]

    def view(self, state: State, policy: Policy, seed: int) -> DraftView:
        """What a drafter sees of a state made from this one, when nothing newer was evaluated."""
        return spread(self.log_probs, self.token_ids, self.state, state, self.block, policy, seed)


@dataclass(frozen=True)
class PromptTrace:
    """The baseline's decode of one prompt. `seed`: of the request's noise. `text` and `scores` of its answer and the
    `question` are there for evaluation prompts, `stale` counts what earlier passes knew (`records.Stale`)."""

    doc_id: int
    prompt_hash: str
    prompt_tokens: int
    seed: int
    tokens: list[int]
    finish: str
    prefill_passes: int
    commit_passes: int
    steps: list[Step]
    text: str = ""
    question: str = ""
    scores: dict[str, float] = field(default_factory=dict)
    stale: dict[str, int] = field(default_factory=dict)

    @property
    def visits(self) -> list[Visit]:
        return [(step.block, step.after) for step in self.steps]

    @cached_property
    def blocks(self) -> list[list[Step]]:
        """The steps, block by block."""
        found: dict[int, list[Step]] = {}
        for step in self.steps:
            found.setdefault(step.block, []).append(step)
        return list(found.values())


@dataclass(frozen=True)
class Trace:
    """A folder of recorded prompts."""

    folder: Path
    header: Header

    def has(self, doc_id: int) -> bool:
        return self._path(doc_id).exists()

    def doc_ids(self) -> list[int]:
        return sorted(int(path.stem) for path in self.folder.glob("*.safetensors"))

    def read(self, doc_id: int) -> PromptTrace:
        """Raises UserError when the file is missing, damaged, or was written for another trace."""
        path = self._path(doc_id)
        try:
            with safe_open(path, "pt") as file:
                meta = file.metadata()
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            facts = json.loads(meta["prompt"])
            if meta["digest"] != _digest(self.header, facts, tensors):
                raise ValueError("its content is not what was recorded")
            return PromptTrace(**facts, steps=_steps(tensors))
        except (OSError, SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
            raise UserError(f"{path}: cannot be read ({first_line(error)}); remove it and record again") from error

    def write(self, one: PromptTrace) -> None:
        tensors = _tensors(one.steps)
        facts = {name: value for name, value in vars(one).items() if name not in ("steps", "blocks")}
        meta = {"prompt": json.dumps(facts), "digest": _digest(self.header, facts, tensors)}
        with writing(self._path(one.doc_id)):
            publish(self._path(one.doc_id), save(tensors, meta))

    def _path(self, doc_id: int) -> Path:
        return self.folder / f"{doc_id}.safetensors"


def name(cell: Cell, split: Split = "test") -> str:
    """The folder of a cell's trace: the same for every drafter, budget, number of prompts, layout and device."""
    plain = replace(cell, drafter="none", rows=1, prompts=0, layout="batch", device="cpu")
    return f"{plain.id}.{split}"


def open_trace(root: Path, cell: Cell, split: Split, expected: Header | None = None) -> Trace:
    """The trace of a cell, begun if `expected` is given and there is none.

    Raises MissingTraceError when there is none, UserError when it is one of something else, by the field that differs.
    """
    folder = root / name(cell, split)
    path = folder / "trace.json"
    if expected is not None and not path.exists():
        with writing(path):
            folder.mkdir(parents=True, exist_ok=True)
            publish(path, json.dumps(asdict(expected), indent=1).encode())
    if not path.exists():
        raise MissingTraceError(f"no trace of {cell.target} on {cell.task} at {folder}; spotbench record makes it")
    read = _read_header(path)
    for key, value in asdict(expected or read).items():
        if (other := getattr(read, key)) != value:
            raise UserError(f"{path}: recorded with {key} {other!r}, wanted {value!r}; remove its folder or keep apart")
    return Trace(folder, read)


def _read_header(path: Path) -> Header:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found.get("schema") == SCHEMA:
            return Header(**found)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not a trace ({first_line(error)}); remove its folder and record again") from error
    raise UserError(f"{path}: written by schema {found.get('schema')}, this spotbench reads {SCHEMA}")


def find(root: Path, target: str, split: Split, rule: str) -> list[Trace]:
    """All traces of a target, split and rule under a folder, in order of name. Raises UserError on damaged ones."""
    found = []
    for path in sorted(root.glob("*/trace.json")):
        one = Trace(path.parent, _read_header(path))
        if (one.header.target, one.header.split, one.header.rule) == (target, split, rule):
            found.append(one)
    return found


def record(
    trace: Trace,
    target: Target,
    requests: Sequence[Request],
    task: Task,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> None:
    """Decode the requests that the trace lacks and add them to it; what is interrupted is taken up again."""
    for n, request in enumerate(requests):
        if not trace.has(request.doc_id):
            progress(n, len(requests))
            one = record_one(trace.header, target, request)
            if trace.header.split == "test":
                said = answers.read(target, request.prompt, one.tokens, request.until)
                scores = task.score(request.doc_id, said.text)
                one = replace(one, text=said.text, finish=said.finish, scores=scores, question=request.question)
            trace.write(one)
    progress(len(requests), len(requests))


def record_one(header: Header, target: Target, request: Request) -> PromptTrace:
    policy, prompt = header.policy, target.encode(request.prompt)
    if fault := target.spec.overflow(len(prompt), policy.max_new_tokens):
        raise UserError(f"{header.task} prompt {request.doc_id}: {fault}; ask for fewer prompts or tokens")
    seed = request_seed(header.seed, request.prompt)
    steps: list[Step] = []
    stale = StaleWatch(policy, seed)

    def watch(block: int, state: State, prediction: Prediction, after: State, logits: Tensor) -> None:
        if len(state) < policy.block_size:  # a first token that was decided ahead is part of the block's opening
            return
        scores = score(logits, state, policy, seed, block).scores.topk(2, dim=-1).values
        margins = (scores[:, 0] - scores[:, 1]).float().cpu()
        steps.append(Step(block, state, after, *top_tokens(logits[masked(state)], policy), margins))
        stale(block, state, prediction, after, logits)

    done = decode(target, prompt, policy, drafters.make("none"), seed=seed, watch=watch)
    return PromptTrace(
        doc_id=request.doc_id,
        prompt_hash=hashlib.sha256(request.prompt.encode()).hexdigest()[:16],
        prompt_tokens=len(prompt),
        seed=seed,
        tokens=list(done.tokens),
        finish=done.finish,
        prefill_passes=done.prefill_passes,
        commit_passes=done.commit_passes,
        steps=steps,
        stale=asdict(stale.counts),
    )


def replay(one: PromptTrace, header: Header, drafter: Drafter, rows: int) -> list[Pass]:
    """The verify passes that a live decode with this drafter has. Their times are the drafter's own; the rest is 0.

    Raises DraftError as `decode` does.
    """
    policy, passes, clock = header.policy, [], Clock(lambda: None)
    begin(drafter, one.visits)
    for steps in one.blocks:
        at, stale = 0, None
        while at < len(steps):
            state = steps[at].state
            drafts: list[State] = []
            clock.lap()
            if stale is not None and rows > 1 and state.count(MASK) > 1:
                view = stale.view(state, policy, one.seed)
                drafts = proposals(drafter, view, rows - 1, header.vocab_size)
            where = dict.fromkeys([state, *drafts])
            draft_s = clock.lap()
            depth = -1
            while at < len(steps) and steps[at].state in where:
                stale = steps[at]
                at, depth = at + 1, depth + 1
            passes.append(Pass(tuple(where), depth, draft_s, 0.0, 0.0))
    return passes


def _tensors(steps: Sequence[Step]) -> dict[str, Tensor]:
    return {
        "blocks": torch.tensor([step.block for step in steps], dtype=torch.int32),
        "states": torch.tensor([step.state for step in steps], dtype=torch.int32),
        "afters": torch.tensor([step.after for step in steps], dtype=torch.int32),
        "log_probs": torch.cat([step.log_probs for step in steps]),
        "token_ids": torch.cat([step.token_ids for step in steps]).int(),
        "margins": torch.cat([step.margins for step in steps]),
    }


def _steps(tensors: dict[str, Tensor]) -> list[Step]:
    states = [tuple(state) for state in tensors["states"].tolist()]
    counts = [state.count(MASK) for state in states]
    parts = [torch.split(tensors[part], counts) for part in ("log_probs", "token_ids", "margins")]
    afters = (tuple(state) for state in tensors["afters"].tolist())
    return [
        Step(block, state, after, log_probs, token_ids.long(), margins)
        for block, state, after, log_probs, token_ids, margins in zip(
            tensors["blocks"].tolist(), states, afters, *parts, strict=True
        )
    ]


def _digest(header: Header, facts: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """Of all that a file holds and of what it belongs to."""
    digest = hashlib.sha256(json.dumps([asdict(header), facts], sort_keys=True).encode())
    for part in sorted(tensors):
        digest.update(part.encode() + tensors[part].contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
