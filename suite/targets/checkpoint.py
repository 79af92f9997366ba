"""Where a target's checkpoint is, whether all of it is there, and how to get it."""

import hashlib
import json
from pathlib import Path

import huggingface_hub
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

from suite.errors import UserError, first_line
from suite.targets.base import TargetSpec

DATA = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.txt")
"""What a checkpoint is made of; code and pickled weights beside it are neither fetched nor read."""
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def locate(spec: TargetSpec, fetch: bool = True) -> Path:
    """The checkpoint's folder: the source itself, or its snapshot in the Hugging Face cache, fetched if need be.

    Raises UserError when it is not here and cannot be fetched.
    """
    folder, revision = Path(spec.source), spec.revision or None
    if folder.is_dir():
        return folder
    try:
        return Path(huggingface_hub.snapshot_download(spec.source, revision=revision, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError) as error:
        if not fetch or isinstance(error, HFValidationError) or spec.tiny:
            raise UserError(f"{spec.name}: no checkpoint at {spec.source}; {how_to_get(spec)}") from error
    try:
        return Path(huggingface_hub.snapshot_download(spec.source, revision=revision, allow_patterns=list(DATA)))
    except (OSError, HfHubHTTPError) as error:
        raise UserError(
            f"{spec.name}: not in the Hugging Face cache, and the hub cannot be reached from here "
            f"({first_line(error)}); on a machine with network (a login node), run: {how_to_get(spec)}"
        ) from error


def shards(spec: TargetSpec, folder: Path) -> list[Path]:
    """The weights' files. Raises UserError when there are none, pickled ones only, or not all that the index names."""
    found = sorted(folder.glob("*.safetensors"))
    if not found:
        if pickled := [path.name for pattern in PICKLED for path in folder.glob(pattern)]:
            raise UserError(
                f"{spec.name}: {folder} holds pickled weights only ({pickled[0]}), which are never opened; "
                "convert them to safetensors"
            )
        raise UserError(f"{spec.name}: no *.safetensors at {folder}; {how_to_get(spec)}")
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            named = set(json.loads(index.read_text())["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{index}: not an index of shards ({error}); fetch the checkpoint again") from error
        if missing := sorted(named - {path.name for path in found}):
            raise UserError(f"{spec.name}: {missing[0]} of {len(named)} shards is missing; {how_to_get(spec)}")
    return found


def weights_hash(spec: TargetSpec) -> str:
    """sha256 over the checkpoint's data files, shortened: which weights and tokenizer a result was measured on."""
    digest, folder = hashlib.sha256(), locate(spec)
    for path in sorted(path for pattern in DATA for path in folder.glob(pattern) if path.name != "training.json"):
        with path.open("rb") as file:
            digest.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def how_to_get(spec: TargetSpec) -> str:
    """The mend of a checkpoint that is not here."""
    if spec.tiny:
        return "install spotbench again"
    if Path(spec.source).is_absolute() or spec.source.startswith("."):
        return "correct the path"
    revision = f" --revision {spec.revision}" if spec.revision else ""
    return f"hf download {spec.source}{revision}"
