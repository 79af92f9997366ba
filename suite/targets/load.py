"""Load a target from its checkpoint: safetensors only, a native transformers class, no remote code."""

import hashlib
import json
from pathlib import Path

import torch
import transformers
from transformers import AutoTokenizer, PreTrainedModel

from suite.errors import UserError
from suite.targets.base import Target, TargetSpec
from suite.targets.block_causal import BlockCausal, Layout


def load(spec: TargetSpec, device: str = "cpu", dtype: str = "float32", layout: Layout = "batch") -> Target:
    """Raises UserError when the checkpoint is missing, unreadable or not what the catalogue says."""
    folder = Path(spec.source)
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise UserError(
            f"{spec.name}: no checkpoint at {folder} (model.safetensors is missing); install the package again"
        )
    _agree(spec, folder)
    try:
        native: type[PreTrainedModel] = getattr(transformers, spec.native_class)
        model = native.from_pretrained(
            folder, dtype=getattr(torch, dtype), attn_implementation="sdpa", use_safetensors=True, local_files_only=True
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # whatever the readers raise on a damaged file, the user gets the file and the mend
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{spec.name}: cannot read the checkpoint at {folder} ({reason}); fetch it again") from error
    model.to(device)  # type: ignore[arg-type]
    return BlockCausal(spec, model, tokenizer, layout)


def _agree(spec: TargetSpec, folder: Path) -> None:
    """The checkpoint's own config must say what the catalogue says."""
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{spec.name}: cannot read {folder / 'config.json'} ({error})") from error
    for key, wanted in [
        ("mask_token_id", spec.mask_id),
        ("block_size", spec.block_size),
        ("vocab_size", spec.vocab_size),
    ]:
        if config.get(key) != wanted:
            raise UserError(
                f"{spec.name}: {folder / 'config.json'} has {key} {config.get(key)}, the catalogue {wanted}"
            )


def weights_hash(spec: TargetSpec) -> str:
    """sha256 of the weights, shortened: which checkpoint a result was measured on."""
    with (Path(spec.source) / "model.safetensors").open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
