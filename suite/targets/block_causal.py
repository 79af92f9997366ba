"""Block-causal targets (SDAR and its kin): bidirectional within a block, causal over blocks, exact cache.

A row of a pass is a path of blocks behind the cache. Two layouts evaluate the same rows:

* `batch`: one batch row each, on an expanded cache. Bit-identical to one pass per row in float32 on the CPU.
* `packed`: one sequence on the shared cache; paths that start alike share their blocks, and a mask lets a
  block see the cache, its own path and itself. Less memory, one kernel more sensitive to its shape.

With shift 1 (Fast-dLLM v2) row i-1 of a block predicts token i. Its first token is decided before its first pass, by
the last row of the committed block before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers import DynamicCache

from suite.decoding.state import Row, State
from suite.targets.native import Native, expand, select

Path = tuple[State, ...]


@dataclass
class Context:
    """The committed blocks' keys and values; `paths` tells where the last pass put which blocks.

    `paths[path] = (batch row, first slot)` of the path's last block, for finished paths only. `last`: logits `[V]` of
    the last committed position.
    """

    passes: int = 0
    cache: DynamicCache = field(default_factory=DynamicCache)
    length: int = 0
    paths: dict[Path, tuple[int, int]] = field(default_factory=dict)
    last: Tensor | None = None


class BlockCausal(Native):
    """A native transformers model under a block-causal mask."""

    @torch.inference_mode()
    def prefill(self, ids: Sequence[int], blocks: int = 0) -> Context:
        context = Context()
        if ids:
            length = len(ids)
            mask = _earlier_blocks(0, length, self._size)
            logits = self._forward(context.cache, self._ids([ids]), torch.arange(length)[None], mask)
            context.passes, context.length = 1, length
            context.last = self._allowed(logits[0, -1])
        return context

    def ahead(self, context: Context) -> Tensor | None:
        return context.last if self.spec.family.commit_yields_token else None

    @torch.inference_mode()
    def evaluate(self, context: Context, rows: Sequence[Row]) -> Tensor:
        logits = self._allowed((self._packed if self.layout == "packed" else self._batched)(context, rows))
        context.last = logits[0, -1]
        if self.spec.family.shift:  # the first row, as in the reference: where it matters `ahead` has decided
            logits = torch.cat([logits[:, :1], logits[:, :-1]], 1)
        return logits

    def keep(self, context: Context, row: Row) -> None:
        slots = list(range(context.length))
        batch_row = 0
        for depth in range(len(row.finished)):
            batch_row, start = context.paths[row.finished[: depth + 1]]
            slots += range(start, start + self._size)
        select(context.cache, batch_row, slots)
        context.length, context.paths = len(slots), {}

    def _batched(self, context: Context, rows: Sequence[Row]) -> Tensor:
        """One batch row per row. All rows carry equally many blocks."""
        paths = [(*row.finished, row.current) if row.current else row.finished for row in rows]
        if len({len(path) for path in paths}) != 1:
            raise ValueError("the batch layout takes rows of equal length; use the packed layout")
        fresh = len(paths[0]) * self._size
        expand(context.cache, len(rows))
        start, length = context.length, context.length + fresh
        mask = _earlier_blocks(start, length, self._size) if len(paths[0]) > 1 else None
        ids = self._ids([[token for state in path for token in state] for path in paths])
        logits = self._forward(context.cache, ids, torch.arange(start, length)[None], mask)
        for n, row in enumerate(rows):
            for depth in range(len(row.finished)):
                context.paths.setdefault(row.finished[: depth + 1], (n, start + depth * self._size))
        return logits[:, -self._size :]

    def _packed(self, context: Context, rows: Sequence[Row]) -> Tensor:
        """Every distinct path is one segment of the sequence."""
        segments: dict[Path, int] = {}
        for row in rows:
            for depth in range(len(row.finished)):
                segments.setdefault(row.finished[: depth + 1], len(segments))
        finished = dict(segments)
        ends = []
        for row in rows:
            path = (*row.finished, row.current) if row.current else row.finished
            ends.append(segments.setdefault(path, len(segments)))
        sees = torch.zeros(len(segments), len(segments), dtype=torch.bool)
        for path, n in segments.items():
            for depth in range(len(path)):
                sees[n, segments[path[: depth + 1]]] = True
        size, start = self._size, context.length
        among = sees.repeat_interleave(size, 0).repeat_interleave(size, 1)
        mask = torch.cat([torch.ones(len(among), start, dtype=torch.bool), among], 1)[None, None]
        ids = self._ids([[token for path in segments for token in path[-1]]])
        positions = torch.cat([torch.arange(size) + start + (len(path) - 1) * size for path in segments])
        logits = self._forward(context.cache, ids, positions[None], mask)
        context.paths = {path: (0, start + n * size) for path, n in finished.items()}
        return logits[0].view(len(segments), size, -1)[ends]

    @property
    def _size(self) -> int:
        return self.spec.block_size


def _earlier_blocks(start: int, length: int, size: int) -> Tensor:
    """Positions `start..length` attend to all of their own block and of the earlier ones: `[1, 1, L, length]`."""
    block = torch.arange(length) // size
    return (block[start:, None] >= block[None, :])[None, None]
