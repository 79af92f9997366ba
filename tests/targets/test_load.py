"""Loading: what a checkpoint folder may hold, and what is said when it does not fit."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import suite
from suite.errors import UserError
from suite.targets import base, catalog, checkpoint, load
from suite.targets.catalog import CATALOG, FAMILIES, PAPER
from tests.targets.checkpoints import PUBLISHED, write

HOME = Path(suite.__file__).parent.parent
TINY = catalog.spec("tiny-sdar-b16")


@pytest.fixture
def sdar(tmp_path: Path) -> Path:
    write("SDAR", tmp_path / "sdar")
    return tmp_path / "sdar"


def edit(folder: Path, **changes: Any) -> None:
    """Change keys of a config.json; None takes a key out."""
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    path = folder / "model.safetensors"
    held = load_file(path)
    change(held)
    save_file(held, path, {"format": "pt"})


def as_pickle(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")


FAULTS: list[tuple[str, Callable[[Path], object], str]] = [
    ("pickled weights", as_pickle, "pickled weights only .pytorch_model.bin., which are never opened"),
    ("no weights", lambda f: (f / "model.safetensors").unlink(), r"no \*.safetensors"),
    (
        "unknown family",
        lambda f: edit(f, model_type="gpt2"),
        "model_type 'gpt2' is of no family known here; known: sdar",
    ),
    ("no block size", lambda f: edit(f, block_size=None), "block_size is None; give the number"),
    ("mask outside", lambda f: edit(f, mask_token_id=96), "mask_token_id 96 lies outside the vocabulary of 96"),
    ("no end", lambda f: edit(f, eos_token_id=None, pad_token_id=None), "eos_token_id is None"),
    ("no config", lambda f: (f / "config.json").unlink(), "config.json: cannot be read"),
    ("config of another kind", lambda f: (f / "config.json").write_text("[]"), "config.json: not a JSON object"),
    (
        "tensor missing",
        lambda f: tensors(f, lambda t: t.pop("model.layers.1.self_attn.q_proj.weight")),
        "tensors missing: model.layers.1.self_attn.q_proj.weight",
    ),
    (
        "tensor left over",
        lambda f: tensors(f, lambda t: t.update({"model.extra.weight": torch.zeros(2)})),
        "tensors left over: model.extra.weight",
    ),
    (
        "tensor of another shape",
        lambda f: tensors(f, lambda t: t.update({"lm_head.weight": torch.zeros(5, 32)})),
        "cannot read the checkpoint",
    ),
    ("damaged weights", lambda f: (f / "model.safetensors").write_bytes(b"\x10" * 64), "cannot read the checkpoint"),
]


@pytest.mark.parametrize(("damage", "says"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_a_folder_that_does_not_fit_is_one_line(sdar: Path, damage: Callable[[Path], object], says: str) -> None:
    damage(sdar)
    with pytest.raises(UserError, match=says) as error:
        load.load(catalog.recognise(sdar), text=False)
    assert "\n" not in str(error.value)


def test_another_block_size_than_the_catalogues_is_refused(sdar: Path) -> None:
    spec = replace(catalog.recognise(sdar), block_size=8)
    with pytest.raises(
        UserError, match="block_size 4, the catalogue 8: the checkpoint was not trained for other blocks"
    ):
        load.load(spec, text=False)


def test_a_tokenizer_and_a_chat_template_are_needed_for_text(sdar: Path) -> None:
    with pytest.raises(UserError, match="no tokenizer that can be read"):
        load.load(catalog.recognise(sdar))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(Path(TINY.source) / name, sdar)
    with pytest.raises(UserError, match="has no chat template; put its chat_template.jinja there"):
        load.load(catalog.recognise(sdar))
    spec = replace(catalog.recognise(sdar), chat_template="{% for m in messages %}{{ m['content'] }}{% endfor %}")
    assert load.load(spec).chat([{"role": "user", "content": "hello"}]) == "hello"


@pytest.mark.parametrize("name", PUBLISHED)
def test_shards_are_one_checkpoint(name: str, tmp_path: Path) -> None:
    model = write(name, tmp_path / name, shards=3)
    loaded = load.load(catalog.recognise(tmp_path / name), text=False)._model  # type: ignore[attr-defined]
    for key, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], tensor), key
    (tmp_path / name / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(UserError, match="model-00002-of-00003.safetensors of 3 shards is missing"):
        load.load(catalog.recognise(tmp_path / name), text=False)


def test_dtypes_are_float32_on_the_cpu_and_bfloat16_elsewhere(sdar: Path) -> None:
    assert load.load(catalog.recognise(sdar), text=False).dtype == "float32"
    assert load.load(catalog.recognise(sdar), dtype="bfloat16", text=False).dtype == "bfloat16"
    assert base.default_dtype("cuda") == base.default_dtype("auto") == "bfloat16"


def test_a_target_spread_over_devices_is_the_same(sdar: Path) -> None:
    pytest.importorskip("accelerate")
    whole, spread = (load.load(catalog.recognise(sdar), device, "float32", text=False) for device in ("cpu", "auto"))
    for key, tensor in whole._model.state_dict().items():  # type: ignore[attr-defined]
        assert torch.equal(spread._model.state_dict()[key], tensor), key  # type: ignore[attr-defined]


def test_the_hash_covers_weights_tokenizer_and_template(tmp_path: Path) -> None:
    hashes = set()
    for n, file in enumerate([None, "model.safetensors", "tokenizer.json", "chat_template.jinja", "config.json"]):
        folder = tmp_path / str(n)
        shutil.copytree(TINY.source, folder)
        if file:
            with (folder / file).open("ab") as open_file:
                open_file.write(b" ")
        hashes.add(checkpoint.weights_hash(replace(TINY, source=str(folder))))
    assert len(hashes) == 5
    assert checkpoint.weights_hash(TINY) in hashes


def test_without_network_the_way_to_fetch_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="the hub cannot be reached") as error:
        load.load(replace(catalog.spec("SDAR-8B-Chat-b32"), revision="abc"))
    assert "login node), run: hf download JetLM/SDAR-8B-Chat-b32 --revision abc" in str(error.value)
    assert "\n" not in str(error.value)


def test_remote_code_is_never_trusted_or_run(sdar: Path) -> None:
    (sdar / "evil.py").write_text(f"open({str(sdar / 'ran')!r}, 'w')\nclass Evil: pass\n")
    edit(sdar, auto_map=dict.fromkeys(("AutoConfig", "AutoModelForCausalLM", "AutoTokenizer"), "evil.Evil"))
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(Path(TINY.source) / name, sdar)
    settings = json.loads((sdar / "tokenizer_config.json").read_text())
    settings |= {"auto_map": {"AutoTokenizer": ["evil.Evil", None]}, "tokenizer_class": "Evil"}
    (sdar / "tokenizer_config.json").write_text(json.dumps(settings))
    loaded, shipped = load.load(catalog.recognise(sdar)), load.load(TINY)
    text = shipped.chat([{"role": "user", "content": "How much is 12 + 7?"}])
    assert loaded.chat([{"role": "user", "content": "How much is 12 + 7?"}]) == text
    assert loaded.encode(text) == shipped.encode(text)
    assert not (sdar / "ran").exists()


def test_a_tokenizer_of_vocabulary_and_merges_is_qwen2s(sdar: Path) -> None:
    fast = json.loads((Path(TINY.source) / "tokenizer.json").read_text())
    added = {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in fast["added_tokens"]}
    settings = {"added_tokens_decoder": added, "chat_template": "{{ messages[0]['content'] }}", "auto_map": {}}
    (sdar / "tokenizer_config.json").write_text(json.dumps(settings))
    (sdar / "vocab.json").write_text(json.dumps(fast["model"]["vocab"]))
    (sdar / "merges.txt").write_text("#version: 0.2\n" + "\n".join(" ".join(m) for m in fast["model"]["merges"]))
    loaded = load.load(catalog.recognise(sdar))
    ids = loaded.encode("<|im_start|>user\nHow much is 12 + 7?<|im_end|>")
    assert (ids[0], ids[-1]) == (1, 2)
    assert loaded.decode(ids) == "user\nHow much is 12 + 7?"


@pytest.mark.parametrize("room", ["suite", "tasks", "drafters", "slurm", "reports"])
def test_no_source_trusts_remote_code_or_opens_pickles(room: str) -> None:
    for path in (HOME / room).rglob("*.py"):
        text = path.read_text()
        assert not re.search(r"trust_remote_code(?!=False)", text), path
        assert not re.search(r"pickle\.loads?\(|weights_only=False|torch\.load\((?!.*weights_only=True)", text), path


def test_every_entry_says_all_that_sets_it_apart() -> None:
    for name, spec in CATALOG.items():
        assert name == spec.name
        assert spec.mask_id in spec.excluded_ids
        assert spec.stop_ids
        assert 0 < spec.block_size <= spec.context_limit
        assert max(spec.mask_id, spec.pad_id, *spec.stop_ids) < spec.vocab_size
        assert spec.parameters
        assert spec.family in FAMILIES
        assert spec.tiny == name.startswith("tiny-") == Path(spec.source).is_absolute()
    assert set(PAPER) <= set(CATALOG)
    assert len(set(PAPER)) == 6
