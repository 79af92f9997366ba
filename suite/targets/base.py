"""What a target is to the decoder: three calls on a context."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from torch import Tensor

from suite.decoding.policy import Confidence
from suite.decoding.state import Row


@dataclass(frozen=True)
class TargetSpec:
    """One diffusion language model, and all that sets it apart from the others.

    `source`: a folder, or a Hugging Face id with its `revision`. `excluded_ids` are never drawn: the mask
    token, and rows that pad the vocabulary. `shift`: 1 where row i-1 predicts token i. `tiny`: a look-alike
    trained by this project, never a stand-in for the real model's figures.
    """

    name: str
    source: str
    native_class: str
    mask_id: int
    stop_ids: frozenset[int]
    pad_id: int
    vocab_size: int
    block_size: int
    context_limit: int
    excluded_ids: tuple[int, ...]
    revision: str = ""
    rename: Mapping[str, str] = field(default_factory=dict)
    shift: Literal[0, 1] = 0
    prefix_attention: Literal["block-causal", "full"] = "block-causal"
    confidence: Confidence = "tempered"
    tiny: bool = False
    note: str = ""


class Target(Protocol):
    """A loaded target. A context is opaque; it is made by `prefill` and belongs to one request."""

    spec: TargetSpec
    dtype: str
    layout: str

    def encode(self, text: str) -> list[int]:
        """Token ids of a text that has its special tokens written out; nothing is added."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text without special tokens; leading whitespace stays."""
        ...

    def chat(self, messages: list[dict[str, str]]) -> str:
        """The chat template applied, the assistant's turn opened."""
        ...

    def prefill(self, ids: Sequence[int]) -> Any:
        """The context of whole committed blocks; no pass when there are none."""
        ...

    def evaluate(self, context: Any, rows: Sequence[Row]) -> Tensor:
        """Logits `[rows, B, V]`, float32, excluded tokens at -inf. Every row sees the context and itself only."""
        ...

    def keep(self, context: Any, row: Row) -> None:
        """Keep in the context the finished part of a row of the last pass, and forget the rest of that pass."""
        ...

    def synchronize(self) -> None:
        """Wait until the device has done what it was asked."""
        ...
