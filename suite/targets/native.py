"""A native transformers model with its tokenizer: what all targets share."""

import inspect
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from suite.decoding.policy import ContextPolicy
from suite.decoding.state import MASK
from suite.targets.base import TargetSpec

Layout = Literal["batch", "packed"]


class Native:
    """Text in and out, and single passes of the model on a cache."""

    def __init__(
        self, spec: TargetSpec, model: PreTrainedModel, tokenizer: Any, layout: Layout, context_policy: ContextPolicy
    ) -> None:
        self.spec, self.context_policy = spec, context_policy
        self.layout: str = layout
        self.dtype = str(model.dtype).removeprefix("torch.")
        self._model, self._tokenizer, self._device = model, tokenizer, model.device
        model.train(False)
        parameters = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"  # renamed in transformers 5.24

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def chat(self, messages: list[dict[str, str]]) -> str:
        text: str = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return text

    def synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def _forward(self, cache: DynamicCache, ids: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        """One pass: logits `[n, L, V]`. `mask` `[1, 1, L, cache + L]`, True attends; None attends to everything."""
        seeing: dict[str, Any] = {"is_causal": False} if mask is None else {"attention_mask": mask.to(self._device)}
        output = self._model(
            input_ids=ids,
            position_ids=positions.to(self._device).expand(len(ids), -1),
            use_cache=True,
            **{self._cache_name: cache},
            **seeing,
        )
        logits: Tensor = output.logits
        return logits

    def _ids(self, rows: Sequence[Sequence[int]]) -> Tensor:
        ids = torch.tensor(rows, device=self._device)
        return ids.masked_fill(ids == MASK, self.spec.mask_id)

    def _allowed(self, logits: Tensor) -> Tensor:
        """Float32 logits, excluded tokens at -inf."""
        logits = logits.float()
        logits[..., list(self.spec.excluded_ids)] = float("-inf")
        return logits


def select(cache: Any, row: int, slots: Sequence[int]) -> None:
    """Keep these slots of one batch row of a cache."""
    for layer in cache.layers:
        keys, values = layer.keys[row : row + 1], layer.values[row : row + 1]
        if list(slots) == list(range(len(slots))):  # the usual case needs no gather
            layer.keys, layer.values = keys[:, :, : len(slots)], values[:, :, : len(slots)]
        else:
            index = torch.tensor(slots, device=keys.device)
            layer.keys, layer.values = keys.index_select(2, index), values.index_select(2, index)


def expand(cache: Any, rows: int) -> None:
    """The same cache for every batch row, without copying."""
    for layer in cache.layers:
        layer.keys, layer.values = (x.expand(rows, -1, -1, -1) for x in (layer.keys, layer.values))
