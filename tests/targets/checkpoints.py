"""Small random checkpoints of every family, written as the family publishes them."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel

VOCABULARY, MASK_ID, END_ID = 96, 95, 94
Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Published:
    """A family's own `config.json`, the native class and configuration, and native tensors under its own names."""

    config: dict[str, Any]
    native_class: str
    native: dict[str, Any]
    rename: Callable[[Tensors], Tensors] = lambda tensors: tensors


def _renamed(*pairs: tuple[str, str]) -> Callable[[Tensors], Tensors]:
    def rename(tensors: Tensors) -> Tensors:
        out = {}
        for name, tensor in tensors.items():
            for pattern, own in pairs:
                name = re.sub(pattern, own, name)
            out[name] = tensor
        return out

    return rename


def _single_experts(tensors: Tensors) -> Tensors:
    """Experts one by one, as every family publishes them."""
    out = {}
    for name, tensor in tensors.items():
        if name.endswith("experts.gate_up_proj"):
            for n, both in enumerate(tensor):
                gate, up = both.chunk(2)
                stem = name.removesuffix("gate_up_proj")
                out |= {f"{stem}{n}.gate_proj.weight": gate, f"{stem}{n}.up_proj.weight": up}
        elif name.endswith("experts.down_proj"):
            stem = name.removesuffix("down_proj")
            out |= {f"{stem}{n}.down_proj.weight": down for n, down in enumerate(tensor)}
        else:
            out[name] = tensor
    return out


def _llada2(tensors: Tensors) -> Tensors:
    tensors = _single_experts(tensors)
    for name in [name for name in tensors if name.endswith("q_proj.weight")]:
        parts = [tensors.pop(name.replace("q_proj", f"{part}_proj")) for part in "qkv"]
        tensors[name.replace("self_attn.q_proj", "attention.query_key_value")] = torch.cat(parts)
    return _renamed(
        (r"embed_tokens", "word_embeddings"),
        (r"self_attn\.o_proj", "attention.dense"),
        (r"self_attn\.q_norm", "attention.query_layernorm"),
        (r"self_attn\.k_norm", "attention.key_layernorm"),
        (r"e_score_correction_bias", "expert_bias"),
    )(tensors)


_SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
_IDS = {"mask_token_id": MASK_ID, "eos_token_id": END_ID, "pad_token_id": END_ID}
_ROPE = {"rope_theta": 10000.0}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "norm_topk_prob": True}
_GLM = {
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "norm_topk_prob": True,
    "n_group": 2,
    "topk_group": 1,
    "routed_scaling_factor": 2.5,
    "first_k_dense_replace": 1,
    "partial_rotary_factor": 0.5,
}
_LLADA_MOE = {key: value for key, value in (_SHAPE | _EXPERTS).items() if "intermediate" not in key}

PUBLISHED = {
    "SDAR": Published(
        {"model_type": "sdar", "block_size": 4, "attn_implementation": "flex_attention", **_SHAPE, **_IDS, **_ROPE},
        "Qwen3ForCausalLM",
        _SHAPE | _ROPE,
    ),
    "SDAR-MoE": Published(
        {"model_type": "sdar_moe", "block_size": 4, **_SHAPE, **_EXPERTS, **_IDS, **_ROPE},
        "Qwen3MoeForCausalLM",
        _SHAPE | _EXPERTS | _ROPE,
        _single_experts,
    ),
    "LLaDA2": Published(
        {
            "model_type": "llada2_moe",
            "block_size": 4,
            "num_experts": 4,
            "num_shared_experts": 1,
            **_SHAPE,
            **_GLM,
            **_IDS,
            **_ROPE,
        },
        "Glm4MoeForCausalLM",
        _SHAPE | _GLM | _ROPE | {"n_routed_experts": 4, "n_shared_experts": 1, "use_qk_norm": True},
        _llada2,
    ),
    "Fast-dLLM v2": Published(
        {"model_type": "Fast_dLLM_Qwen", "bd_size": 4, **_SHAPE, **_IDS, **_ROPE}, "Qwen2ForCausalLM", _SHAPE | _ROPE
    ),
    "LLaDA": Published(
        {
            "model_type": "llada",
            "d_model": 32,
            "mlp_hidden_size": 48,
            "n_layers": 2,
            "n_heads": 4,
            "n_kv_heads": None,
            "max_sequence_length": 256,
            "weight_tying": False,
            "embedding_size": VOCABULARY,
            "vocab_size": VOCABULARY,
            "rms_norm_eps": 1e-6,
            **_IDS,
            **_ROPE,
        },
        "LlamaForCausalLM",
        _SHAPE | _ROPE | {"num_key_value_heads": 4},
        _renamed(
            (r"^lm_head", "model.transformer.ff_out"),
            (r"^model\.embed_tokens", "model.transformer.wte"),
            (r"^model\.norm", "model.transformer.ln_f"),
            (r"^model\.layers", "model.transformer.blocks"),
            (r"self_attn\.o_proj", "attn_out"),
            (r"self_attn\.", ""),
            (r"input_layernorm", "attn_norm"),
            (r"post_attention_layernorm", "ff_norm"),
            (r"mlp\.gate_proj", "ff_proj"),
            (r"mlp\.up_proj", "up_proj"),
            (r"mlp\.down_proj", "ff_out"),
        ),
    ),
    "LLaDA-MoE": Published(
        {
            "model_type": "lladamoe",
            "expert_intermediate_size": 24,
            "dense_intermediate_size": 48,
            **_LLADA_MOE,
            "norm_topk_prob": None,
            **_IDS,
            **_ROPE,
        },
        "Qwen3MoeForCausalLM",
        _SHAPE | _EXPERTS | _ROPE | {"norm_topk_prob": False},
        _single_experts,
    ),
    "Dream": Published({"model_type": "Dream", **_SHAPE, **_IDS, **_ROPE}, "Qwen2ForCausalLM", _SHAPE | _ROPE),
}


def native(family: str) -> PreTrainedModel:
    """A random model whose predictions are not near flat."""
    published = PUBLISHED[family]
    torch.manual_seed(len(family))
    kind = getattr(transformers, published.native_class)
    model: PreTrainedModel = kind._from_config(kind.config_class(**published.native), attn_implementation="sdpa")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim >= 2:
                parameter.mul_(8 if "embed" not in name else 40)
            elif name.endswith("bias"):
                parameter.normal_(std=0.1)
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.normal_(std=0.1)
    model.train(False)
    return model


def write(family: str, folder: Path, shards: int = 1) -> PreTrainedModel:
    """Write the checkpoint, in several files if asked; returns the model that it holds."""
    model = native(family)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = PUBLISHED[family].rename({name: t.contiguous() for name, t in model.state_dict().items()})
    names, index = sorted(tensors), {}
    for n in range(shards):
        file = "model.safetensors" if shards == 1 else f"model-{n + 1:05}-of-{shards:05}.safetensors"
        part = {name: tensors[name].clone() for name in names[n::shards]}
        save_file(part, folder / file, {"format": "pt"})
        index |= dict.fromkeys(part, file)
    if shards > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    (folder / "config.json").write_text(json.dumps(PUBLISHED[family].config))
    return model
