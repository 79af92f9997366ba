"""Traces made by hand, and those of the toy target."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from suite import trace
from suite.decoding.state import MASK, State, fill, masked
from suite.trace import Header, PromptTrace, Step
from tasks.harness import Request
from tests.toy import ToyTarget

TRAIN = Header(
    target="toy",
    weights="w",
    context="cached",
    dtype="float32",
    task="sums",
    task_version="1",
    split="train",
    seed=3,
    block_size=4,
    vocab_size=8,
    max_new_tokens=14,
    rule="exact",
    temperature=0.0,
    top_k=0,
    top_p=1.0,
    confidence="tempered",
    commit="fused",
)


def toy() -> ToyTarget:
    """Stale predictions hold well, but not always."""
    return ToyTarget(size=6, vocabulary=12, smooth=0.8)


def toy_header(rule: str = "exact", temperature: float = 0.0) -> Header:
    return replace(TRAIN, block_size=6, vocab_size=12, rule=rule, temperature=temperature)


def toy_request(doc_id: int) -> Request:
    return Request(doc_id, " ".join(map(str, [1 + doc_id % 9] * (doc_id + 2))), ())


def toy_traces(header: Header, prompts: int = 12) -> list[tuple[Header, PromptTrace]]:
    return [(header, trace.record_one(header, toy(), toy_request(doc_id))) for doc_id in range(prompts)]


def walked(laws: Sequence[Sequence[float]], commits: Sequence[Sequence[tuple[int, int]]]) -> PromptTrace:
    """One block, by its steps of (position, token), while every pass sees the same probabilities by position."""
    state: State = (MASK,) * len(laws)
    steps = []
    for step in commits:
        after = fill(state, [i for i, _ in step], [token for _, token in step])
        log_probs, ids = torch.tensor([laws[i] for i in masked(state)]).log().sort(dim=-1, descending=True)
        steps.append(Step(0, state, after, log_probs, ids, torch.zeros(len(ids))))
        state = after
    return PromptTrace(0, "", 0, 0, list(state), "length", 0, 0, steps)
