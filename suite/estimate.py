"""How long a grid may take, before anything has run: a simple model of what decoding costs, never a measurement.

A pass reads all weights once, computes two operations for every parameter and token in it, and has a fixed overhead.
Its tokens are its rows' blocks, or with full attention over the whole sequence its rows' sequences. A prompt takes as
many passes as the plain decoder has steps, divided by what drafts are assumed to save; its prefill is left out. All
assumptions are named here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import tasks.data
import tasks.harness
from suite.cells import Bundle, Cell
from suite.decoding.rules import parse_rule
from suite.targets import catalog
from suite.targets.base import TargetSpec

FILLED = 0.5
"""Of the room for an answer, the part that answers fill on average."""
PROMPT_TOKENS = 200
TOKENS_PER_STEP = 2.5
"""What a step commits under any rule but `exact` and `fixed(n)`."""
LOADED_PER_S = 1e9
"""Bytes of weights read from the disk each second."""
START_S = 60.0
"""For a bundle: imports, the task's self-check, warming up."""


@dataclass(frozen=True)
class Device:
    """What one has: bytes read and operations done each second, as far as a real decode reaches them, the overhead of a
    pass [s], and the bytes of a parameter."""

    name: str
    bandwidth: float
    operations: float
    overhead_s: float
    parameter_bytes: int


GPU = Device("H100", 2.0e12, 4.0e14, 0.03, 2)
"""About 60 % of its bandwidth and 40 % of its bfloat16 speed; the overhead is that of launching some 36 layers."""
CPU = Device("CPU core", 1.0e10, 2.0e10, 0.005, 4)


def device(cell: Cell) -> Device:
    return CPU if cell.device in ("cpu", "replay") else GPU


def seconds(bundle: Bundle, cells: Sequence[Cell]) -> float:
    """What these cells of a bundle take in one process; of a replay, what recording its trace takes."""
    base = bundle.baseline
    spec, on = catalog.spec(base.target, bundle.source), device(base)
    if not cells:
        return 0.0
    decoded = [base] if base.device == "replay" else dict.fromkeys([base, *cells])  # the baseline is in every visit
    decodes = sum(_decode_s(cell, spec) for cell in decoded) + (base in cells) * _decode_s(base, spec)  # stale tokens
    return START_S + spec.parameters * on.parameter_bytes / LOADED_PER_S + prompts(bundle) * decodes


def prompts(bundle: Bundle) -> int:
    """How many a bundle has, by the data that is here, or as published."""
    return bundle.baseline.prompts or tasks.data.rows(tasks.harness.facts(bundle.baseline.task).dataset)


def _decode_s(cell: Cell, spec: TargetSpec) -> float:
    on, room = device(cell), cell.max_new_tokens or tasks.harness.facts(cell.task).max_new_tokens
    steps = math.ceil(FILLED * room / _tokens_per_step(cell.rule))
    saved = 1.0 if cell.is_baseline else 1 + math.log2(cell.rows) / 2  # what best-first saves on the look-alikes
    length = PROMPT_TOKENS + room if cell.context == "whole" else spec.block_size
    operations = 2.0 * spec.parameters * cell.rows * length
    pass_s = on.overhead_s + max(spec.parameters * on.parameter_bytes / on.bandwidth, operations / on.operations)
    return steps / saved * pass_s


def _tokens_per_step(rule: str) -> float:
    if rule == "exact":
        return 1.0
    return float(getattr(parse_rule(rule), "n", TOKENS_PER_STEP))
