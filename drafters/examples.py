"""What SPOT and SPOT-Sets learn from: `examples` of real decodes.

Every step of a trace is a stale view; every later step of its block is an example, with the steps between drafted. Its
labels are the positions that did commit, and whether the drawn tokens there were the right ones. Traces of evaluation
prompts are refused. Prompts are split by the hash of their text: held-out ones are scored, never trained on.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from drafters.spot import FILLED_AT, Reader
from suite.decoding.state import MASK
from suite.errors import UserError
from suite.trace import Header, PromptTrace, Step, Trace

HELD_OUT = 10
"""One prompt in so many is held out."""


class Batch(NamedTuple):
    """Examples without (most of) what was filled before their stale pass; `slots` `[n, L]` are the positions left."""

    inputs: Tensor
    slots: Tensor
    commits: Tensor
    right: Tensor
    depth: Tensor


@dataclass
class Examples:
    """`inputs` `[n, B, FEATURES]` float16; `commits` `[n, B]` what commits next, `right` `[n, B]` where the drawn token
    is the one that commits; `depth` `[n]` steps drafted."""

    inputs: Tensor
    commits: Tensor
    right: Tensor
    depth: Tensor

    def batches(self, rows: Tensor, size: int) -> Iterator[Batch]:
        """The examples `rows` `[n]`, `size` at a time, those with like many positions together."""
        left = (self.inputs[rows, :, FILLED_AT] == 0).sum(-1)
        for some in torch.split(rows[left.argsort(stable=True)], size):
            inputs = self.inputs[some].float()
            filled = inputs[..., FILLED_AT]
            slots = filled.argsort(dim=-1, stable=True)[:, : int((filled == 0).sum(-1).max())]
            inputs = inputs.gather(1, slots[..., None].expand(-1, -1, inputs.shape[-1]))
            commits, right = (labels[some].gather(1, slots) for labels in (self.commits, self.right))
            yield Batch(inputs, slots, commits, right, self.depth[some])


@dataclass
class Data:
    """Examples to train on and held out, per block size, and what they are made of. `sets`: several commits a step."""

    train: list[Examples]
    held_out: list[Examples]
    sets: bool = False
    source: dict[str, Any] = field(default_factory=dict)


def examples(trace: PromptTrace, header: Header, reach: int) -> Iterable[tuple[Tensor, ...]]:
    """The parts of `Examples` for every stale view of a trace."""
    for steps in trace.blocks:
        for at, stale in enumerate(steps[:-1]):
            coming = [step for step in steps[at + 1 : at + 1 + reach] if step.state.count(MASK) > 1]
            if coming:
                yield _of_view(stale, coming, header, trace.seed)


def _of_view(stale: Step, coming: Sequence[Step], header: Header, seed: int) -> tuple[Tensor, ...]:
    view = stale.view(coming[0].state, header.policy, seed)
    commits = torch.tensor([step.after for step in coming]) != torch.tensor([step.state for step in coming])
    right = torch.zeros_like(commits)
    for n, step in enumerate(coming):
        choice = view.choice(len(step.state) - step.state.count(MASK))
        for i in step.committed:
            right[n, i] = choice.tokens[i][0] == step.after[i]
    inputs = Reader(view)([step.state for step in coming])
    return inputs.half(), commits, right, torch.arange(len(coming))


def collect(traces: Sequence[Trace], reach: int, progress: Callable[[int, int], None] = lambda *_: None) -> Data:
    """With at most `reach` steps drafted.

    Raises UserError on traces of evaluation prompts, of unlike rules, or when there are none.
    """
    made: dict[tuple[int, bool], list[tuple[Tensor, ...]]] = {}
    total = sum(len(trace.doc_ids()) for trace in traces)
    digest, done = hashlib.sha256(), 0
    for trace in traces:
        header = trace.header
        if header.split != "train":
            raise UserError(
                f"{trace.folder}: of the {header.split} split; drafters are trained on the train split only"
            )
        if header.rule != traces[0].header.rule:
            raise UserError(
                f"{trace.folder}: of rule {header.rule}, others of {traces[0].header.rule}; train on one rule"
            )
        for doc_id in trace.doc_ids():
            one = trace.read(doc_id)
            held = int(one.prompt_hash, 16) % HELD_OUT == 0
            made.setdefault((header.block_size, held), []).extend(examples(one, header, reach))
            digest.update(f"{header.weights}{one.prompt_hash}{one.seed}{one.tokens}".encode())
            progress(done := done + 1, total)
    made = {key: rows for key, rows in made.items() if rows}
    if {held for _, held in made} != {False, True}:
        raise UserError(
            f"too little to train on in {total} prompts, of which one in {HELD_OUT} is held out; record more of the "
            "train split: spotbench record --split train"
        )
    headers = [trace.header for trace in traces]
    source = {
        "targets": sorted({h.target for h in headers}),
        "weights": sorted({h.weights for h in headers}),
        "rule": headers[0].rule,
        "tasks": sorted({h.task for h in headers}),
        "temperatures": sorted({h.temperature for h in headers}),
        "block_sizes": sorted({h.block_size for h in headers}),
        "seeds": sorted({h.seed for h in headers}),
        "prompts": total,
        "data": digest.hexdigest()[:16],
    }
    parts: dict[bool, list[Examples]] = {True: [], False: []}
    for (_, held), rows in sorted(made.items()):
        parts[held].append(Examples(*(torch.cat(column) for column in zip(*rows, strict=True))))
    return Data(parts[False], parts[True], headers[0].rule != "exact", source)
