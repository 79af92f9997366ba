"""The decoder against the families' own: tiny random checkpoints and what the reference code makes of them.

`tests/goldens/*`: a checkpoint as the family publishes it, its logits, and greedy generations of its official sampler
with pass counts, float32 on a CPU. Each is loaded by its `config.json` alone.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import drafters
from suite.decoding.decode import decode
from suite.decoding.policy import ContextPolicy, Policy
from suite.decoding.rules import parse_rule
from suite.decoding.state import MASK, Row
from suite.targets import catalog, load
from suite.targets.base import Target
from suite.targets.native import Layout

GOLDENS = Path(__file__).parent.parent / "goldens"
FOLDERS = ["sdar_b4", "sdar_b16"]


def target(folder: str, layout: Layout) -> Target:
    return load.load(catalog.recognise(GOLDENS / folder), layout=layout, text=False)


def cases(folder: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((GOLDENS / folder / "cases.json").read_text())["cases"]
    return found


def assert_close(seen: torch.Tensor, golden: torch.Tensor) -> None:
    """Within 1e-5 of the largest logit. (SDAR's reach 19, and its float32 reference lies 2.5e-5 from float64.)"""
    assert (seen - golden).abs().max() <= 1e-5 * golden.abs().max().clamp(min=1)


@pytest.mark.parametrize("layout", ["batch", "packed"])
@pytest.mark.parametrize("folder", FOLDERS)
def test_sdars_logits_are_the_references(folder: str, layout: Layout) -> None:
    golden = load_file(GOLDENS / folder / "logits.safetensors")
    sdar = target(folder, layout)
    size, mask = sdar.spec.block_size, sdar.spec.mask_id
    ids = [MASK if token == mask else token for token in golden["ids"][0].tolist()]
    first, second = tuple(ids[:size]), tuple(ids[size:])
    seen = sdar.evaluate(sdar.prefill([]), [Row((first,), second)])[0]
    allowed = [token for token in range(sdar.spec.vocab_size) if token != mask]
    assert_close(seen[:, allowed], golden["logits"][0, size:][:, allowed])


@pytest.mark.parametrize(("folder", "family"), [("llada", "LLaDA"), ("dream", "Dream")])
def test_full_attention_logits_are_the_references(folder: str, family: str) -> None:
    golden = load_file(GOLDENS / folder / "logits.safetensors")
    ids, size = golden["ids"][0].tolist(), 8
    spec = replace(catalog.recognise(GOLDENS / folder), block_size=size)
    assert spec.family.name == family
    one = load.load(spec, text=False)
    state = tuple(MASK if token == spec.mask_id else token for token in ids[-size:])
    seen = one.evaluate(one.prefill(ids[:-size], 1), [Row((), state)])[0]
    allowed = [token for token in range(spec.vocab_size) if token != spec.mask_id]
    shifted = golden["logits"][0, len(ids) - size - spec.family.shift :][:size]  # the reference's rows are raw
    assert_close(seen[:, allowed], shifted[:, allowed])


@pytest.mark.parametrize("layout", ["batch", "packed"])
@pytest.mark.parametrize("drafter", ["none", "chain", "best-first"])
@pytest.mark.parametrize(("cache", "context"), [("none", "whole"), ("prefix", "prefix"), ("dual", "frozen")])
def test_lladas_generations_are_the_references_token_for_token(
    cache: str, context: ContextPolicy, drafter: str, layout: Layout
) -> None:
    golden = json.loads((GOLDENS / "llada" / "cases.json").read_text())
    (case,) = (case for case in golden["cases"] if case["cache"] == cache)
    spec = replace(catalog.recognise(GOLDENS / "llada"), block_size=case["block"])
    llada = load.load(spec, layout=layout, context_policy=context, text=False)
    policy = Policy(case["block"], case["gen_length"], parse_rule(case["rule"]), confidence=spec.family.confidence)
    done = decode(llada, golden["prompt"], policy, drafters.make(drafter), rows=1 if drafter == "none" else 5)
    assert list(done.tokens) == case["tokens"]
    assert len(done.passes) == case["passes"] if drafter == "none" else len(done.passes) < case["passes"]


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
