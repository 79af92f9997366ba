"""Full-attention targets (LLaDA, Dream): every position attends to every other, masked ones to come included.

There is no exact cache. A pass evaluates a window of the sequence on the keys and values of what lies outside it;
the context policy says which:

* `whole`: the window is the sequence, so nothing is remembered. The references without a cache.
* `frozen`: the window is the block. What lies outside it is as the block's first pass, over the whole sequence, left
  it (the "dual cache" of Fast-dLLM, arXiv 2505.22618).
* `prefix`: the window runs from the block to the sequence's end (Fast-dLLM's "prefix cache").

Each is a policy of its own with tokens of its own. With shift 1 the row before the block predicts its first token,
and is frozen with the context it belongs to.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers import DynamicCache

from suite.decoding.state import MASK, Row, State
from suite.targets.native import Native, expand, select


@dataclass
class Context:
    """The committed tokens and, once the block at `start` had its first pass, what lies outside its window.

    `before`: logits `[V]` of the position before the block, from that pass.
    """

    ids: list[int]
    length: int
    passes: int = 0
    start: int = -1
    cache: DynamicCache = field(default_factory=DynamicCache)
    before: Tensor | None = None


class FullAttention(Native):
    """A native transformers model without a mask."""

    def prefill(self, ids: Sequence[int], blocks: int) -> Context:
        return Context(list(ids), len(ids) + blocks * self.spec.block_size)

    def ahead(self, context: Context) -> Tensor | None:
        return None

    @torch.inference_mode()
    def evaluate(self, context: Context, rows: Sequence[Row]) -> Tensor:
        ids = context.ids + [token for state in rows[0].finished for token in state]
        if any(row.finished != rows[0].finished for row in rows):
            raise ValueError("rows of one pass follow the same finished blocks")
        first = context.start != len(ids)
        if first:
            context.start, context.cache = len(ids), DynamicCache()
        window = range(context.length) if first else self._window(context)
        block = range(context.start - window.start, context.start - window.start + self.spec.block_size)
        logits = self._passed(context, window, [self._sequence(ids, row.current, context.length) for row in rows])
        before = logits[:, max(0, block.start - 1)]  # a sequence's first row predicts itself, as in the reference
        if first and (outside := [n for n in range(context.length) if n not in self._window(context)]):
            if len(rows) > 1:
                raise ValueError("a block's first pass freezes its context, and takes one row")
            context.before = before[0]
            select(context.cache, 0, outside)
        else:
            select(context.cache, 0, range(context.length - len(window)))
        if self.spec.family.shift:
            if block.start == 0 and context.before is not None:
                before = context.before.expand(len(rows), -1)
            return self._allowed(torch.cat([before[:, None], logits[:, block.start : block.stop - 1]], 1))
        return self._allowed(logits[:, block.start : block.stop])

    def keep(self, context: Context, row: Row) -> None:
        context.ids += [token for state in row.finished for token in state]

    def _window(self, context: Context) -> range:
        if self.context_policy == "whole":
            return range(context.length)
        end = context.start + self.spec.block_size
        return range(context.start, context.length if self.context_policy == "prefix" else end)

    def _sequence(self, ids: Sequence[int], current: State, length: int) -> list[int]:
        return [*ids, *current, *[MASK] * (length - len(ids) - len(current))]

    def _passed(self, context: Context, window: range, sequences: Sequence[list[int]]) -> Tensor:
        """Logits `[rows, window, V]`. What the pass added to the cache lies behind what was there."""
        ids = self._ids([sequence[window.start : window.stop] for sequence in sequences])
        rows, width, positions = len(ids), len(window), torch.tensor(window)[None]
        if self.layout == "packed" and rows > 1:
            own = torch.eye(rows, dtype=torch.bool).repeat_interleave(width, 0).repeat_interleave(width, 1)
            outside = torch.ones(rows * width, context.length - width, dtype=torch.bool)
            mask = torch.cat([outside, own], 1)[None, None]
            logits = self._forward(context.cache, ids.view(1, -1), positions.repeat(1, rows), mask)
            return logits.view(rows, width, -1)
        expand(context.cache, rows)
        return self._forward(context.cache, ids, positions, None)
