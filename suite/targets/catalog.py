"""The targets there are, one frozen entry each. Adding a member of a known family is adding one entry."""

import difflib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from suite.errors import UserError
from suite.targets.base import Family, TargetSpec

SDAR = Family(
    name="SDAR",
    model_types=("sdar",),
    native_class="Qwen3ForCausalLM",
    attention="block-causal",
    source="github.com/JetAstra/SDAR, arXiv 2510.06303",
)
SDAR_MOE = replace(SDAR, name="SDAR-MoE", model_types=("sdar_moe",), native_class="Qwen3MoeForCausalLM")
LLADA2 = Family(
    name="LLaDA2",
    model_types=("llada2_moe", "llada2_moe_veomni"),
    native_class="Glm4MoeForCausalLM",
    attention="block-causal",
    source="github.com/inclusionAI/LLaDA2.X, arXiv 2512.15745",
    key_map={
        r"^model\.word_embeddings\.": "model.embed_tokens.",
        r"\.attention\.dense\.": ".self_attn.o_proj.",
        r"\.attention\.query_layernorm\.": ".self_attn.q_norm.",
        r"\.attention\.key_layernorm\.": ".self_attn.k_norm.",
        r"\.mlp\.gate\.expert_bias": ".mlp.gate.e_score_correction_bias",
    },
    config_keys={"n_routed_experts": "num_experts", "n_shared_experts": "num_shared_experts"},
    config_values={"use_qk_norm": True, "attention_bias": False},
)
FAST_DLLM = Family(
    name="Fast-dLLM v2",
    model_types=("fast_dllm", "Fast_dLLM_Qwen", "fast_dllm_qwen2"),
    native_class="Qwen2ForCausalLM",
    attention="block-causal",
    source="github.com/NVlabs/Fast-dLLM, arXiv 2509.26328",
    shift=1,
    commit_yields_token=True,
    config_keys={"block_size": "bd_size"},
)
LLADA = Family(
    name="LLaDA",
    model_types=("llada",),
    native_class="LlamaForCausalLM",
    attention="full",
    source="github.com/ML-GSAI/LLaDA, arXiv 2502.09992",
    confidence="untempered",
    key_map={
        r"^model\.transformer\.wte\.": "model.embed_tokens.",
        r"^model\.transformer\.ln_f\.": "model.norm.",
        r"^model\.transformer\.ff_out\.": "lm_head.",
        r"^model\.transformer\.blocks\.": "model.layers.",
        r"^(model\.layers\.\d+\.)(?=[qkv]_proj\.)": r"\1self_attn.",
        r"\.attn_out\.": ".self_attn.o_proj.",
        r"\.attn_norm\.": ".input_layernorm.",
        r"\.ff_norm\.": ".post_attention_layernorm.",
        r"\.ff_proj\.": ".mlp.gate_proj.",
        r"\.up_proj\.": ".mlp.up_proj.",
        r"\.ff_out\.": ".mlp.down_proj.",
    },
    config_keys={
        "hidden_size": "d_model",
        "intermediate_size": "mlp_hidden_size",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "num_key_value_heads": "n_kv_heads",
        "max_position_embeddings": "max_sequence_length",
        "tie_word_embeddings": "weight_tying",
        "vocab_size": "embedding_size",
    },
)
LLADA_MOE = replace(
    LLADA,
    name="LLaDA-MoE",
    model_types=("lladamoe", "llada_moe"),
    native_class="Qwen3MoeForCausalLM",
    source="github.com/inclusionAI/dInfer",
    key_map={},
    config_keys={"moe_intermediate_size": "expert_intermediate_size", "intermediate_size": "dense_intermediate_size"},
    config_values={"norm_topk_prob": False},  # the reference's router never renormalises
)
DREAM = Family(
    name="Dream",
    model_types=("Dream", "dream"),
    native_class="Qwen2ForCausalLM",
    attention="full",
    source="github.com/DreamLM/Dream, arXiv 2508.15487",
    shift=1,
)
FAMILIES = (SDAR, SDAR_MOE, LLADA2, FAST_DLLM, LLADA, LLADA_MOE, DREAM)


_QWEN3: dict[str, Any] = {
    "mask_id": 151669,
    "stop_ids": frozenset({151645, 151643}),
    "pad_id": 151643,
    "vocab_size": 151936,
    "context_limit": 32768,
}
_QWEN25: dict[str, Any] = _QWEN3 | {"mask_id": 151665, "vocab_size": 152064}
_DREAM: dict[str, Any] = _QWEN3 | {"mask_id": 151666, "vocab_size": 152064, "context_limit": 2048}
_LLADA: dict[str, Any] = {
    "mask_id": 126336,
    "stop_ids": frozenset({126081, 126348}),
    "pad_id": 126081,
    "vocab_size": 126464,
    "context_limit": 4096,
}
_LING: dict[str, Any] = {
    "mask_id": 156895,
    "stop_ids": frozenset({156892}),
    "pad_id": 156892,
    "vocab_size": 157184,
    "context_limit": 16384,
}
"""Ids and sizes that checkpoints with one tokenizer share."""


def _published(
    family: Family, source: str, billions: float, block: int, shared: dict[str, Any], note: str = ""
) -> TargetSpec:
    """A checkpoint of the hub, by the name it has there. `billions`: its parameters."""
    return TargetSpec(
        name=source.partition("/")[2],
        source=source,
        family=family,
        block_size=block,
        excluded_ids=(shared["mask_id"],),
        parameters=round(billions * 1e9),
        note=note,
        **shared,
    )


def _tiny(family: Family, name: str, block: int, parameters: int, like: str) -> TargetSpec:
    return TargetSpec(
        name=name,
        source=str(Path(__file__).parent / "tiny" / name),
        family=family,
        mask_id=3,
        stop_ids=frozenset({0, 2}),
        pad_id=0,
        vocab_size=832,
        block_size=block,
        context_limit=512,
        excluded_ids=(3,),
        parameters=parameters,
        tiny=True,
        note=f"a look-alike of {like} trained by this project on its four tiny tasks",
    )


_SIZES = [(SDAR, "1.7B", 2.03), (SDAR, "4B", 4.41), (SDAR, "8B", 8.19), (SDAR_MOE, "30B-A3B", 30.5)]

CATALOG = {
    spec.name: spec
    for spec in [
        _tiny(SDAR, "tiny-sdar-b16", 16, 1_000_832, "SDAR"),
        _tiny(SDAR, "tiny-sdar-b8", 8, 824_832, "SDAR"),
        _tiny(SDAR_MOE, "tiny-sdar-moe-b16", 16, 1_398_144, "SDAR-30B-A3B"),
        _tiny(LLADA, "tiny-llada", 16, 1_066_112, "LLaDA"),
        _tiny(DREAM, "tiny-dream", 16, 1_001_600, "Dream"),
        _tiny(FAST_DLLM, "tiny-fast-dllm-b16", 16, 1_001_600, "Fast-dLLM v2"),
        *(
            _published(family, f"JetLM/SDAR-{size}-Chat{suffix}", billions, block, _QWEN3)
            for family, size, billions in _SIZES
            for block, suffix in [(4, ""), (8, "-b8"), (16, "-b16"), (32, "-b32"), (64, "-b64")]
        ),
        _published(SDAR, "Gen-Verse/TraDo-4B-Instruct", 4.41, 4, _QWEN3),
        _published(SDAR, "Gen-Verse/TraDo-8B-Instruct", 8.19, 4, _QWEN3),
        _published(LLADA, "GSAI-ML/LLaDA-8B-Instruct", 8.02, 32, _LLADA),
        _published(LLADA, "GSAI-ML/LLaDA-1.5", 8.02, 32, _LLADA),
        _published(LLADA_MOE, "inclusionAI/LLaDA-MoE-7B-A1B-Instruct", 7.36, 32, _LING | {"context_limit": 8192}),
        _published(LLADA2, "inclusionAI/LLaDA2.0-mini", 16.3, 32, _LING),
        _published(
            LLADA2, "inclusionAI/LLaDA2.1-mini", 16.3, 32, _LING, "decoded without its editing of committed tokens"
        ),
        _published(DREAM, "Dream-org/Dream-v0-Instruct-7B", 7.62, 32, _DREAM),
        _published(DREAM, "apple/DiffuCoder-7B-Instruct", 7.62, 32, _DREAM),
        _published(FAST_DLLM, "Efficient-Large-Model/Fast_dLLM_v2_1.5B", 1.78, 32, _QWEN25 | {"vocab_size": 151936}),
        _published(FAST_DLLM, "Efficient-Large-Model/Fast_dLLM_v2_7B", 7.62, 32, _QWEN25),
    ]
}

PAPER = (
    "SDAR-8B-Chat-b32",
    "SDAR-4B-Chat-b32",
    "SDAR-1.7B-Chat-b32",
    "SDAR-30B-A3B-Chat-b32",
    "LLaDA-8B-Instruct",
    "Dream-v0-Instruct-7B",
)
"""Six targets like the paper's. Which six the paper took is not known to us."""


def spec(name: str, source: str = "") -> TargetSpec:
    """A target of the catalogue, or one that a checkpoint folder's `config.json` describes.

    `source`: another place to read it from. Raises UserError naming those with a similar name.
    """
    if name in CATALOG:
        return replace(CATALOG[name], source=source or CATALOG[name].source)
    if source:
        return recognise(Path(source), name)
    close = difflib.get_close_matches(name, CATALOG, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    raise UserError(
        f"unknown target {name!r}; {hint}`spotbench list targets` names all, and the key sources of a grid gives a "
        "checkpoint folder a name"
    )


def read_config(folder: Path) -> dict[str, Any]:
    """A checkpoint's `config.json`. Raises UserError when it is none."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error}); a checkpoint folder holds one") from error
    if not isinstance(config, dict):
        raise UserError(f"{path}: not a JSON object; fetch the checkpoint again")
    return config


def recognise(folder: Path, name: str = "") -> TargetSpec:
    """A target from its checkpoint folder alone. Raises UserError naming the key that is missing or unknown."""
    config = read_config(folder)
    path, kind = folder / "config.json", config.get("model_type")
    family = next((family for family in FAMILIES if kind in family.model_types), None)
    if family is None:
        known = ", ".join(kind for family in FAMILIES for kind in family.model_types)
        raise UserError(f"{path}: model_type {kind!r} is of no family known here; known: {known}")
    siblings = [spec for spec in CATALOG.values() if spec.family == family and not spec.tiny]

    def number(key: str, fallback: int | None = None) -> int:
        published = family.config_keys.get(key, key)
        found = config.get(published, config.get(key, fallback))
        if not isinstance(found, int):
            raise UserError(f"{path}: {published} is {found!r}; give the number")
        return found

    mask_id, vocab_size = number("mask_token_id", siblings[0].mask_id), number("vocab_size")
    if not 0 <= mask_id < vocab_size:
        raise UserError(f"{path}: mask_token_id {mask_id} lies outside the vocabulary of {vocab_size}; correct it")
    stops = config.get("eos_token_id", config.get("pad_token_id"))
    stop_ids = frozenset(stops if isinstance(stops, list) else [stops])
    if not all(isinstance(stop, int) for stop in stop_ids):
        raise UserError(f"{path}: eos_token_id is {stops!r}; give a number or a list of numbers")
    return TargetSpec(
        name=name or folder.name,
        source=str(folder),
        family=family,
        mask_id=mask_id,
        stop_ids=stop_ids,
        pad_id=number("pad_token_id", min(stop_ids)),
        vocab_size=vocab_size,
        block_size=number("block_size", 32 if family.attention == "full" else None),
        context_limit=number("max_position_embeddings"),
        excluded_ids=(mask_id,),
        note=f"recognised as {family.name} from its config.json",
    )
