"""A toy target: logits are a hash of (everything committed before, the row's own state)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from suite.decoding.policy import ContextPolicy
from suite.decoding.state import MASK, Row, State
from suite.targets.base import Family, TargetSpec

SIZE, VOCABULARY = 4, 6


@dataclass
class Context:
    ids: list[int]
    passes: int = 0
    pending: dict[tuple[State, ...], None] = field(default_factory=dict)


class ToyTarget:
    """Categorical laws drawn per state; `sharpness` spreads the logits, 0 makes every token a tie.

    `smooth` is the share of the logits that does not depend on the state: stale predictions hold as far.
    """

    dtype = "float32"
    layout = "batch"
    context_policy: ContextPolicy = "cached"

    def __init__(
        self, sharpness: float = 3.0, size: int = SIZE, vocabulary: int = VOCABULARY, salt: int = 0, smooth: float = 0.0
    ) -> None:
        self.spec = TargetSpec(
            name="toy",
            source="",
            family=Family("toy", (), "", "block-causal", ""),
            mask_id=vocabulary - 1,
            stop_ids=frozenset({0}),
            pad_id=0,
            vocab_size=vocabulary,
            block_size=size,
            context_limit=1000,
            excluded_ids=(vocabulary - 1,),
        )
        self.sharpness, self.salt, self.smooth = sharpness, salt, smooth
        self.rows_in_pass: list[int] = []
        self.prefills = 0

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))

    def chat(self, messages: list[dict[str, str]]) -> str:
        return messages[-1]["content"]

    def synchronize(self) -> None:
        pass

    def prefill(self, ids: Sequence[int], blocks: int = 0) -> Context:
        assert len(ids) % self.spec.block_size == 0
        self.prefills += bool(ids)
        return Context(list(ids), passes=int(bool(ids)))

    def ahead(self, context: Context) -> Tensor | None:
        return None

    def evaluate(self, context: Context, rows: Sequence[Row]) -> Tensor:
        self.rows_in_pass.append(len(rows))
        for row in rows:
            assert all(MASK not in block for block in row.finished), "only finished blocks ride along"
            context.pending[row.finished] = None
        logits = torch.stack(
            [self.law(context.ids + [t for b in row.finished for t in b], row.current) for row in rows]
        )
        logits[..., list(self.spec.excluded_ids)] = float("-inf")
        return logits

    def keep(self, context: Context, row: Row) -> None:
        assert row.finished in context.pending, "only what a pass evaluated can be kept"
        context.ids += [token for block in row.finished for token in block]
        context.pending = {}

    def law(self, before: Sequence[int], state: State) -> Tensor:
        fixed, fresh = self._normal(None), self._normal((tuple(before), state))
        return self.sharpness * (self.smooth * fixed + (1 - self.smooth) * fresh)

    def _normal(self, of: object) -> Tensor:
        digest = hashlib.sha256(repr((self.salt, of)).encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))
        return torch.randn(self.spec.block_size, self.spec.vocab_size, generator=generator)


class Uniform(ToyTarget):
    """Laws of the positions' own, whatever the state: three numbers a position."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__(size=logits.shape[0], vocabulary=logits.shape[1] + 1)
        self.logits = torch.cat([logits, torch.zeros(len(logits), 1)], 1)

    def law(self, before: Sequence[int], state: State) -> Tensor:
        return self.logits.clone()
