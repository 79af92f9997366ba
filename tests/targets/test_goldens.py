"""The decoder against SDAR's own: tiny random checkpoints and what the reference code makes of them.

`tests/goldens/sdar_*`: a checkpoint as the family publishes it, its logits over two blocks, and greedy generations
of its official evaluation sampler with pass counts, float32 on a CPU.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import Qwen3ForCausalLM

import drafters
from suite.decoding.decode import decode
from suite.decoding.policy import Policy, parse_rule
from suite.decoding.state import MASK, Row
from suite.targets.base import TargetSpec
from suite.targets.block_causal import BlockCausal, Layout

GOLDENS = Path(__file__).parent.parent / "goldens"
FOLDERS = ["sdar_b4", "sdar_b16"]


def target(folder: str, layout: Layout) -> Target:
    return load.load(catalog.recognise(GOLDENS / folder), layout=layout, text=False)


def cases(folder: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((GOLDENS / folder / "cases.json").read_text())["cases"]
    return found


@pytest.mark.parametrize("layout", ["batch", "packed"])
@pytest.mark.parametrize("folder", FOLDERS)
def test_logits_are_the_references(folder: str, layout: Layout) -> None:
    golden = load_file(GOLDENS / folder / "logits.safetensors")
    sdar = target(folder, layout)
    size, mask = sdar.spec.block_size, sdar.spec.mask_id
    ids = [MASK if token == mask else token for token in golden["ids"][0].tolist()]
    first, second = tuple(ids[:size]), tuple(ids[size:])
    seen = sdar.evaluate(sdar.prefill([]), [Row((first,), second)])[0]
    allowed = [token for token in range(sdar.spec.vocab_size) if token != mask]
    torch.testing.assert_close(seen[:, allowed], golden["logits"][0, size:][:, allowed], atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("layout", ["batch", "packed"])
@pytest.mark.parametrize("drafter", ["none", "chain", "best-first"])
@pytest.mark.parametrize(
    ("folder", "number"), [(folder, number) for folder in FOLDERS for number in range(len(cases(folder)))]
)
def test_generations_are_the_references_token_for_token(folder: str, number: int, drafter: str, layout: Layout) -> None:
    case, sdar = cases(folder)[number], target(folder, layout)
    prompt, size = case["prompt"], sdar.spec.block_size
    whole_blocks = -(-(len(prompt) + case["gen_length"]) // size) * size
    policy = Policy(size, whole_blocks - len(prompt), parse_rule(case["rule"]), commit="separate")
    done = decode(sdar, prompt, policy, drafters.make(drafter), rows=1 if drafter == "none" else 5)
    reference = tuple(case["tokens"])
    assert done.tokens == reference[: len(done.tokens)]
    assert len(done.tokens) == len(reference) or done.finish == "end"
    if drafter == "none":
        assert len(done.passes) == case["passes"]["denoise"]
        assert done.prefill_passes + done.commit_passes == case["passes"]["store_kv"]
    else:
        assert len(done.passes) <= case["passes"]["denoise"]
