"""What a target is: its description, and three calls on a context."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from torch import Tensor

from suite.decoding.policy import Commit, Confidence, ContextPolicy, Policy
from suite.decoding.state import Row


@dataclass(frozen=True)
class Family:
    """What checkpoints of one kind share: how they are read, and what their rows mean.

    `model_types`: the `model_type` of their `config.json`. `key_map`: patterns of their tensor names and what the
    native class calls them, applied in order. `config_keys`: their configuration keys by native name;
    `config_values`: native ones they leave unsaid. `attention`: bidirectional within a block and causal over blocks,
    or bidirectional over everything. `shift`: 1 where row i-1 predicts token i. `commit_yields_token`: a finished
    block's last row decides the next block's first token. `source`: the reference code.
    """

    name: str
    model_types: tuple[str, ...]
    native_class: str
    attention: Literal["block-causal", "full"]
    source: str
    shift: Literal[0, 1] = 0
    commit_yields_token: bool = False
    confidence: Confidence = "tempered"
    key_map: Mapping[str, str] = field(default_factory=dict)
    config_keys: Mapping[str, str] = field(default_factory=dict)
    config_values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def contexts(self) -> tuple[ContextPolicy, ...]:
        """The context policies there are, the default first."""
        return ("cached",) if self.attention == "block-causal" else ("whole", "frozen", "prefix")

    @property
    def commits(self) -> tuple[Commit, ...]:
        """The ways to commit a finished block, the default first."""
        if self.attention == "full":
            return ("fused",)
        return ("separate",) if self.commit_yields_token else ("fused", "separate")


@dataclass(frozen=True)
class TargetSpec:
    """One diffusion language model: which checkpoint of which family.

    `source`: a folder, or a Hugging Face id with its `revision` (empty: the newest). `excluded_ids` are never drawn:
    the mask token, and rows that pad the vocabulary (those beyond the tokenizer are added on loading).
    `context_limit` and `parameters` are nominal. `chat_template`: Jinja, for a tokenizer that brings none.
    `tiny`: a look-alike trained by this project, never a stand-in for the real model's figures.
    """

    name: str
    source: str
    family: Family
    mask_id: int
    stop_ids: frozenset[int]
    pad_id: int
    vocab_size: int
    block_size: int
    context_limit: int
    excluded_ids: tuple[int, ...]
    parameters: int = 0
    revision: str = ""
    chat_template: str = ""
    tiny: bool = False
    note: str = ""

    def policy(self, max_new_tokens: int, **choices: Any) -> Policy:
        """The reference policy; its confidence and way to commit are the family's unless chosen otherwise."""
        own = {"confidence": self.family.confidence, "commit": self.family.commits[0]}
        return Policy(self.block_size, max_new_tokens, **own | choices)

    def overflow(self, prompt_tokens: int, max_new_tokens: int) -> str:
        """What is wrong with a prompt that does not fit the context with the blocks of its answer; else nothing."""
        origin, size = self.origin(prompt_tokens), self.block_size
        end = origin + -(-(prompt_tokens + max_new_tokens - origin) // size) * size
        if end <= self.context_limit:
            return ""
        return f"{prompt_tokens} tokens and {max_new_tokens} new ones exceed the {self.context_limit} of {self.name}"

    def origin(self, prompt_tokens: int) -> int:
        """Where the first block begins: at the start of the sequence, or of the answer."""
        return prompt_tokens if self.family.attention == "full" else 0

    def first_block(self, prompt_tokens: int) -> int:
        """Index of the block that the first new token is in."""
        return (prompt_tokens - self.origin(prompt_tokens)) // self.block_size


def default_dtype(device: str) -> str:
    return "float32" if device in ("cpu", "replay") else "bfloat16"


class Context(Protocol):
    """What a target remembers of one request. Opaque but for the passes that making it took."""

    passes: int


class Target(Protocol):
    """A loaded target. A context is made by `prefill` and belongs to one request."""

    spec: TargetSpec
    dtype: str
    layout: str
    context_policy: ContextPolicy

    def encode(self, text: str) -> list[int]:
        """Token ids of a text that has its special tokens written out; nothing is added."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text without special tokens; leading whitespace stays."""
        ...

    def chat(self, messages: list[dict[str, str]]) -> str:
        """The chat template applied, the assistant's turn opened."""
        ...

    def prefill(self, ids: Sequence[int], blocks: int) -> Any:
        """The context of what is committed before the first block; up to `blocks` blocks will follow."""
        ...

    def ahead(self, context: Any) -> Tensor | None:
        """Logits `[V]` of the next block's first token, where the committed blocks already decide it."""
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
