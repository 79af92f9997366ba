"""Losslessness on the tiny target that ships with the suite, in float32 on the CPU."""

import functools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import drafters
import tasks
from suite.decoding.decode import Decoded, decode
from suite.decoding.policy import Policy
from suite.decoding.rules import parse_rule
from suite.measure.lossless import diverge
from suite.targets import catalog, load
from suite.targets.base import Target

SPEC = catalog.spec("tiny-sdar-b16")
SEED = 11


@functools.cache
def tiny(layout: str = "batch") -> Target:
    return load.load(SPEC, layout=layout)  # type: ignore[arg-type]


@functools.cache
def prompts() -> list[list[int]]:
    """One of the arithmetic task, one of the code task, and a few tokens that do not fill a block."""
    asked = []
    for task in ("tiny_gsm", "tiny_code"):
        with (Path(tasks.__file__).parent / task / "train.jsonl").open() as lines:
            asked.append(json.loads(next(lines))["prompt"])
    chats = [tiny().encode(tiny().chat([{"role": "user", "content": text}])) for text in asked]
    return [*chats, chats[0][:5]]


@functools.cache
def policy(temperature: float, rule: str) -> Policy:
    return Policy(SPEC.block_size, 40, parse_rule(rule), temperature)


@functools.cache
def baselines(policy: Policy) -> list[Decoded]:
    return [decode(tiny(), prompt, policy, drafters.make("none"), seed=SEED) for prompt in prompts()]


def assert_same_up_to_ties(
    target: Target, prompt: Sequence[int], policy: Policy, baseline: Decoded, other: Decoded
) -> None:
    """For decodes whose passes differ in shape, so that the last bits of the logits may."""
    if other.visits != baseline.visits:
        divergence = diverge(target, prompt, policy, SEED, baseline.visits, other.visits)
        assert divergence.tie, divergence


@pytest.mark.parametrize("rule", ["exact", "threshold(0.9)"])
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("rows", [1, 2, 3, 8, 16])
def test_drafts_change_the_passes_and_nothing_else(rows: int, temperature: float, rule: str) -> None:
    chosen = policy(temperature, rule)
    for prompt, plain in zip(prompts(), baselines(chosen), strict=True):
        passes = {}
        for name in drafters.names():
            if name.startswith("spot") and rows not in (3, 16):  # a network each pass: two budgets do
                continue
            drafter = drafters.make(name)
            drafter.attach(SPEC.name, chosen)
            done = decode(tiny(), prompt, chosen, drafter, rows, SEED, future=plain.visits)
            assert (done.tokens, done.finish, done.visits) == (plain.tokens, plain.finish, plain.visits)
            assert max(p.rows for p in done.passes) <= rows
            passes[name] = len(done.passes)
        assert passes["perfect"] == min(passes.values())
        assert max(passes.values()) <= len(plain.passes)


def test_drafts_are_accepted() -> None:
    """The equalities above are no empty ones."""
    chosen = policy(0.0, "exact")
    done = [decode(tiny(), prompt, chosen, drafters.make("chain"), 8, SEED) for prompt in prompts()]
    assert sum(len(one.passes) for one in done) < 0.9 * sum(len(plain.passes) for plain in baselines(chosen))


def test_another_seed_gives_another_answer_at_a_temperature() -> None:
    policy_1 = replace(policy(1.0, "exact"), temperature=2.0)
    answers = {decode(tiny(), prompts()[2], policy_1, drafters.make("none"), seed=seed).tokens for seed in range(4)}
    assert len(answers) > 1


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_commit_pass_changes_no_token(temperature: float) -> None:
    fused = policy(temperature, "exact")
    separate = replace(fused, commit="separate")
    for prompt, plain in zip(prompts(), baselines(fused), strict=True):
        other = decode(tiny(), prompt, separate, drafters.make("none"), seed=SEED)
        assert_same_up_to_ties(tiny(), prompt, fused, plain, other)
        assert (plain.commit_passes, other.commit_passes) == (0, len({block for block, _ in other.visits}))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", ["none", "chain", "best-first"])
def test_the_packed_layout_decodes_the_same(name: str, temperature: float) -> None:
    chosen = policy(temperature, "exact")
    for prompt, plain in zip(prompts(), baselines(chosen), strict=True):
        packed = decode(tiny("packed"), prompt, chosen, drafters.make(name), 5, SEED)
        assert_same_up_to_ties(tiny(), prompt, chosen, plain, packed)
