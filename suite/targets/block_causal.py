"""Block-causal targets (SDAR and its kin): bidirectional within a block, causal over blocks, exact cache.

A row of a pass is a path of blocks behind the cache. Two layouts evaluate the same rows:

* `batch`: one batch row each, on an expanded cache. Bit-identical to one pass per row in float32 on the CPU.
* `packed`: one sequence on the shared cache; paths that start alike share their blocks, and a mask lets a
  block see the cache, its own path and itself. Less memory, one kernel more sensitive to its shape.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from suite.decoding.state import MASK, Row, State
from suite.targets.base import TargetSpec

Layout = Literal["batch", "packed"]
Path = tuple[State, ...]


@dataclass
class Context:
    """The committed blocks' keys and values; `paths` tells where the last pass put which blocks.

    `paths[path] = (batch row, first slot)` of the path's last block, for finished paths only.
    """

    cache: Any = field(default_factory=DynamicCache)
    length: int = 0
    paths: dict[Path, tuple[int, int]] = field(default_factory=dict)


class BlockCausal:
    """A native transformers model under a block-causal mask."""

    def __init__(self, spec: TargetSpec, model: PreTrainedModel, tokenizer: Any, layout: Layout = "batch") -> None:
        self.spec = spec
        self.layout: str = layout
        self.dtype = str(model.dtype).removeprefix("torch.")
        self._model, self._tokenizer, self._device = model, tokenizer, model.device
        model.train(False)
        parameters = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"  # renamed in transformers 5.24
        self._evaluate: Callable[[Context, Sequence[Row]], Tensor] = (
            self._packed if layout == "packed" else self._batched
        )

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text

    def chat(self, messages: list[dict[str, str]]) -> str:
        text: str = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return text

    def synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    @torch.inference_mode()
    def prefill(self, ids: Sequence[int]) -> Context:
        context = Context()
        if ids:
            length = len(ids)
            self._forward(context, self._ids([ids]), torch.arange(length)[None], _earlier_blocks(0, length, self._size))
            context.length = length
        return context

    @torch.inference_mode()
    def evaluate(self, context: Context, rows: Sequence[Row]) -> Tensor:
        logits = self._evaluate(context, rows).float()
        logits[..., list(self.spec.excluded_ids)] = float("-inf")
        return logits

    def keep(self, context: Context, row: Row) -> None:
        slots = list(range(context.length))
        batch_row = 0
        for depth in range(len(row.finished)):
            batch_row, start = context.paths[row.finished[: depth + 1]]
            slots += range(start, start + self._size)
        for layer in context.cache.layers:
            if slots == list(range(len(slots))):  # the usual case needs no gather
                layer.keys = layer.keys[batch_row : batch_row + 1, :, : len(slots)]
                layer.values = layer.values[batch_row : batch_row + 1, :, : len(slots)]
            else:
                index = torch.tensor(slots, device=layer.keys.device)
                layer.keys = layer.keys[batch_row : batch_row + 1].index_select(2, index)
                layer.values = layer.values[batch_row : batch_row + 1].index_select(2, index)
        context.length, context.paths = len(slots), {}

    def _batched(self, context: Context, rows: Sequence[Row]) -> Tensor:
        """One batch row per row. All rows carry equally many blocks."""
        paths = [(*row.finished, row.current) if row.current else row.finished for row in rows]
        if len({len(path) for path in paths}) != 1:
            raise ValueError("the batch layout takes rows of equal length; use the packed layout")
        fresh = len(paths[0]) * self._size
        for layer in context.cache.layers:
            layer.keys = layer.keys.expand(len(rows), -1, -1, -1)
            layer.values = layer.values.expand(len(rows), -1, -1, -1)
        start, length = context.length, context.length + fresh
        mask = _earlier_blocks(start, length, self._size) if len(paths[0]) > 1 else None
        ids = self._ids([[token for state in path for token in state] for path in paths])
        logits = self._forward(context, ids, torch.arange(start, length)[None].expand(len(rows), -1), mask)
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
        logits = self._forward(context, ids, positions[None], mask)
        context.paths = {path: (0, start + n * size) for path, n in finished.items()}
        return logits[0].view(len(segments), size, -1)[ends]

    def _forward(self, context: Context, ids: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        """One target pass; `mask` `[1, 1, L, cache + L]`, True attends; None attends to everything."""
        seeing: dict[str, Any] = {"is_causal": False} if mask is None else {"attention_mask": mask.to(self._device)}
        output = self._model(
            input_ids=ids,
            position_ids=positions.to(self._device),
            use_cache=True,
            **{self._cache_name: context.cache},
            **seeing,
        )
        logits: Tensor = output.logits
        return logits

    def _ids(self, rows: Sequence[Sequence[int]]) -> Tensor:
        ids = torch.tensor(rows, device=self._device)
        return ids.masked_fill(ids == MASK, self.spec.mask_id)

    @property
    def _size(self) -> int:
        return self.spec.block_size


def _earlier_blocks(start: int, length: int, size: int) -> Tensor:
    """Positions `start..length` attend to all of their own block and of the earlier ones: `[1, 1, L, length]`."""
    block = torch.arange(length) // size
    return (block[start:, None] >= block[None, :])[None, None]
