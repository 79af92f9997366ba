"""Load a target from its checkpoint: safetensors only, a native transformers class, no remote code."""

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast, Qwen2Tokenizer
from transformers.conversion_mapping import get_checkpoint_conversion_mapping, register_checkpoint_conversion_mapping
from transformers.core_model_loading import Split, WeightConverter

from suite.decoding.policy import ContextPolicy
from suite.errors import UserError, first_line
from suite.targets.base import Family, Target, TargetSpec, default_dtype
from suite.targets.block_causal import BlockCausal
from suite.targets.catalog import read_config
from suite.targets.checkpoint import how_to_get, locate, shards
from suite.targets.full_attention import FullAttention
from suite.targets.native import Layout

_NOT_OURS = {"architectures", "auto_map", "model_type", "torch_dtype", "dtype", "transformers_version", "use_cache"}
_NOT_OURS |= {"attn_implementation", "_attn_implementation", "_attn_implementation_autoset"}


def load(
    spec: TargetSpec,
    device: str = "cpu",
    dtype: str = "",
    layout: Layout = "batch",
    context_policy: ContextPolicy | None = None,
    text: bool = True,
) -> Target:
    """A target ready to decode.

    Args:
        device: "cpu", "cuda", or "auto": spread over this machine's GPUs.
        dtype: default float32 on the CPU, bfloat16 elsewhere.
        context_policy: one of the family's; its first one by default.
        text: with tokenizer and chat template; without them only ids can be decoded.

    Raises UserError when the checkpoint is missing, unreadable or not what the catalogue says.
    """
    policy = context_policy or spec.family.contexts[0]
    if policy not in spec.family.contexts:
        raise UserError(f"{spec.name}: context {policy!r} is none of {', '.join(spec.family.contexts)}")
    folder = locate(spec)
    config = read_config(folder)
    _agree(spec, folder, config)
    tokenizer = _tokenizer(spec, folder) if text else None
    if tokenizer is not None:
        spec = replace(spec, excluded_ids=_undrawable(spec, len(tokenizer)))
    model = _model(spec, folder, config, device, dtype or default_dtype(device))
    adapter = BlockCausal if spec.family.attention == "block-causal" else FullAttention
    return adapter(spec, model, tokenizer, layout, policy)


def _agree(spec: TargetSpec, folder: Path, config: Mapping[str, Any]) -> None:
    """The checkpoint's own config must say what the catalogue says, as far as it says anything."""
    path, keys = folder / "config.json", spec.family.config_keys
    for key, wanted, mend in [
        ("mask_token_id", spec.mask_id, "correct one of them"),
        ("vocab_size", spec.vocab_size, "this is another checkpoint"),
        ("block_size", spec.block_size, "the checkpoint was not trained for other blocks; take the one that was"),
    ]:
        published = keys.get(key, key)
        found = config.get(published, wanted)
        if found != wanted:
            raise UserError(f"{spec.name}: {path} has {published} {found}, the catalogue {wanted}: {mend}")
    if not 0 <= spec.mask_id < spec.vocab_size:
        raise UserError(f"{spec.name}: mask id {spec.mask_id} lies outside the vocabulary of {spec.vocab_size}")


def native_config(family: Family, config: Mapping[str, Any]) -> PretrainedConfig:
    """The configuration of the native class, from the one the family publishes."""
    native: Any = getattr(transformers, family.native_class)
    values = {key: value for key, value in config.items() if key not in _NOT_OURS | family.config_values.keys()}
    values |= {key: config[own] for key, own in family.config_keys.items() if config.get(own) is not None}
    if "num_attention_heads" in values:
        values.setdefault("num_key_value_heads", values["num_attention_heads"])
        values.setdefault("head_dim", values["hidden_size"] // values["num_attention_heads"])
    built: PretrainedConfig = native.config_class(**values, **family.config_values)
    return built


def _model(spec: TargetSpec, folder: Path, config: Mapping[str, Any], device: str, dtype: str) -> PreTrainedModel:
    shards(spec, folder)
    if device == "auto" and importlib.util.find_spec("accelerate") is None:
        raise UserError('device "auto" needs the package accelerate: pip install "spotbench[gpus]"')
    family = spec.family
    native: Any = getattr(transformers, family.native_class)
    _learn_fused_attention()
    try:
        model, found = native.from_pretrained(
            folder,
            config=native_config(family, config),
            dtype=getattr(torch, dtype),
            attn_implementation="sdpa",
            use_safetensors=True,
            local_files_only=True,
            key_mapping=dict(family.key_map) or None,
            output_loading_info=True,
            **({"device_map": "auto"} if device == "auto" else {}),
        )
    except Exception as error:  # whatever the readers raise on a damaged file, the user gets the file and the mend
        raise UserError(
            f"{spec.name}: cannot read the checkpoint at {folder} ({first_line(error)}); fetch it again"
        ) from error
    for what, names in [("missing", found["missing_keys"]), ("left over", found["unexpected_keys"])]:
        if names:
            listed = ", ".join(sorted(names)[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            raise UserError(
                f"{spec.name}: {folder} does not fit {family.native_class}: tensors {what}: {listed}; "
                "the checkpoint is of another family, or damaged"
            )
    loaded: PreTrainedModel = model if device == "auto" else model.to(device)
    return loaded


def _learn_fused_attention() -> None:
    """Teach the reader of Glm4Moe checkpoints to split the fused projection of LLaDA2."""
    kind, fused = "glm4_moe", "attention.query_key_value.weight"
    known: Any = get_checkpoint_conversion_mapping(kind)  # type: ignore[no-untyped-call]
    if not any(fused in converter.source_patterns for converter in known):
        parts = [f"self_attn.{part}_proj.weight" for part in "qkv"]
        split = WeightConverter(source_patterns=fused, target_patterns=parts, operations=[Split(dim=0)])
        register_checkpoint_conversion_mapping(kind, [*known, split], overwrite=True)


def _tokenizer(spec: TargetSpec, folder: Path) -> Any:
    """Of a native class, whatever code the checkpoint names for it: `tokenizer.json` says all, and those that publish
    `vocab.json` and `merges.txt` instead (Dream) have Qwen2's."""
    whole, parts = folder / "tokenizer.json", [folder / "vocab.json", folder / "merges.txt"]
    kind: Any = PreTrainedTokenizerFast if whole.is_file() else Qwen2Tokenizer
    try:
        if not whole.is_file() and not all(part.is_file() for part in parts):
            raise FileNotFoundError("neither tokenizer.json nor vocab.json and merges.txt")
        tokenizer = kind.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        raise UserError(
            f"{spec.name}: no tokenizer that can be read at {folder} ({first_line(error)}); {how_to_get(spec)}"
        ) from error
    if not tokenizer.chat_template:
        if not spec.chat_template:
            raise UserError(
                f"{spec.name}: the tokenizer at {folder} has no chat template; put its chat_template.jinja there"
            )
        tokenizer.chat_template = spec.chat_template
    return tokenizer


def _undrawable(spec: TargetSpec, tokens: int) -> tuple[int, ...]:
    """The excluded ids and the rows of the vocabulary that no token has."""
    return tuple(sorted({*spec.excluded_ids, *range(tokens, spec.vocab_size)}))
