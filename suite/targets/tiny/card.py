"""Measure a tiny target and write its card: `python -m suite.targets.tiny.card tiny-sdar-b16`.

The bars say when the problem that a look-alike poses to drafters is a real one.
"""

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from safetensors import safe_open

import drafters
import tasks.harness
from suite.decoding.decode import decode
from suite.decoding.noise import request_seed
from suite.measure.stale import StaleWatch
from suite.targets import catalog, load
from suite.targets.base import Target, TargetSpec
from tasks import answers

TASKS = ("tiny-gsm", "tiny-math", "tiny-code", "tiny-ifeval")


@dataclass(frozen=True)
class Measured:
    """Shares in [0, 1]; per task at T = 0 and T = 1."""

    accuracy: dict[str, tuple[float, float]]
    changed: float
    stale_token: float
    stale_position: float
    prompts: int

    def bars(self) -> list[tuple[str, str, bool]]:
        """(what is asked, what was measured, whether it holds)."""
        cold = sorted((a for a, _ in self.accuracy.values()), reverse=True)
        drop = max(a - b for a, b in self.accuracy.values())
        return [
            ("accuracy at T = 0: at least 0.8 on two tasks", f"{cold[1]:.3f} on the second best", cold[1] >= 0.8),
            ("accuracy at T = 0: at least 0.5 on all tasks", f"{cold[-1]:.3f} on the worst", cold[-1] >= 0.5),
            ("stale token is right: 0.90 to 0.995", f"{self.stale_token:.3f}", 0.9 <= self.stale_token <= 0.995),
            (
                "most confident stale position commits next: 0.5 to 0.85",
                f"{self.stale_position:.3f}",
                0.5 <= self.stale_position <= 0.85,
            ),
            ("answers at T = 1 that differ from T = 0: at least 1/3", f"{self.changed:.3f}", self.changed >= 1 / 3),
            ("accuracy at T = 1 within 0.25 of T = 0, each task", f"{drop:.3f} lost at most", drop <= 0.25),
        ]


def measure(target: Target, prompts: int | None) -> Measured:
    """Exact decoding of every task's test prompts (the first `prompts`) at T = 0 and T = 1, seed 0."""
    accuracy, changed, seen = {}, [], []
    for name in TASKS:
        task = tasks.harness.load(name)
        plain = target.spec.policy(task.max_new_tokens)
        policies = [plain, replace(plain, temperature=1.0)]
        scores: list[list[float]] = [[], []]
        for request in task.requests(target.chat, prompts):
            ids, seed = target.encode(request.prompt), request_seed(0, request.prompt)
            decoded = []
            cold = StaleWatch(plain, seed)
            for policy, score, watch in zip(policies, scores, (cold, None), strict=True):
                tokens = decode(target, ids, policy, drafters.make("none"), seed=seed, watch=watch).tokens
                text = answers.read(target, request.prompt, tokens, request.until).text
                score.append(task.score(request.doc_id, text)[task.metric])
                decoded.append(tokens)
            changed.append(decoded[0] != decoded[1])
            seen.append(cold.counts)
        accuracy[name] = (_mean(scores[0]), _mean(scores[1]))
        print(name, accuracy[name], flush=True)
    return Measured(
        accuracy=accuracy,
        changed=_mean(changed),
        stale_token=sum(s.tokens for s in seen) / sum(s.commits for s in seen),
        stale_position=sum(s.choices for s in seen) / sum(s.steps for s in seen),
        prompts=len(changed) // len(TASKS),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def write(spec: TargetSpec, measured: Measured) -> Path:
    """Write the card beside the weights."""
    folder = Path(spec.source)
    training = json.loads((folder / "training.json").read_text())
    recipe, losses = training["recipe"], training["loss"]
    weights = folder / "model.safetensors"
    lines = [
        f"# {spec.name}",
        "",
        f"A tiny diffusion language model of the {spec.family.name} form: `{spec.family.native_class}`, block "
        f"{spec.block_size}, {spec.family.attention} attention, logit shift {spec.family.shift}. **A look-alike for "
        "tests and development**: nothing measured on it is a result of any published model.",
        "",
        f"* Weights: {_parameters(weights) / 1e6:.2f} M parameters, {weights.stat().st_size / 1e6:.2f} MB, float16 "
        "safetensors, MIT licence.",
        f"* Shape: hidden {recipe['hidden']}, {recipe['layers']} layers, {recipe['heads']} heads "
        f"({recipe['kv_heads']} for keys and values), feed-forward {recipe['intermediate']}"
        + (f" in each of {recipe['experts']} experts, of which 2 work on a token" if recipe["experts"] else "")
        + f", vocabulary {spec.vocab_size} (byte-level BPE, digits apart), ChatML.",
        "* Data: endless problems of the train split of " + ", ".join(TASKS) + " (`tasks/tiny.py`), each with one of "
        "several worked answers drawn at random. Which split a prompt is in is decided by its hash, so no test prompt "
        "is ever seen.",
        "* Recipe: "
        + (f"from the weights of {recipe['ancestor']}, " if recipe["ancestor"] else "")
        + ", then ".join(map(_stage, recipe["stages"]))
        + f". Muon for the matrices ({recipe['muon_lr']}), AdamW for the rest ({recipe['adam_lr']}), rates falling "
        f"linearly in each part; float32 on a CPU, {training['seconds'] / 60:.0f} minutes on one core; seed "
        f"{recipe['seed']}.",
        "* Loss: " + ", ".join(f"{loss} {after}" for loss, after in _losses(recipe["stages"], losses)) + ". All of it "
        "is in `training.json`.",
        f"* Again: `python -m suite.targets.tiny.train {spec.name}`, then `python -m suite.targets.tiny.card "
        f"{spec.name}`.",
        "",
        f"## Measured: exact decoding, float32, the {measured.prompts} test prompts of each task",
        "",
        "| task | accuracy, T = 0 | accuracy, T = 1 |",
        "|---|---:|---:|",
        *(f"| {name} | {cold:.3f} | {warm:.3f} |" for name, (cold, warm) in measured.accuracy.items()),
        "",
        "| what makes the problem real | measured | holds |",
        "|---|---|---|",
        *(f"| {asked} | {found} | {'yes' if holds else '**no**'} |" for asked, found, holds in measured.bars()),
        "",
        "Stale figures: over the steps at T = 0 that have an earlier pass in their block, the share in which that pass "
        "already had the committed token at the committed position, and the share in which the position it was most "
        "confident of (among those still masked) is the one committed.",
        "",
    ]
    path = folder / "README.md"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def _stage(stage: dict[str, Any]) -> str:
    made = f"{stage['steps']} steps of {stage['batch']} conversations"
    if stage["kind"] == "causal":
        return f"{made}, autoregressive"
    copies = f"{stage['copies']} noised {'copy' if stage['copies'] == 1 else 'copies'}"
    rate = "" if stage["rate"] == 1 else f", at {stage['rate']:g} of the rates"
    return (
        f"{made}, block diffusion with {stage['kind']} attention ({copies} of each answer block, noise level "
        f"stratified, weight 1/p{rate})"
    )


def _losses(stages: list[dict[str, Any]], log: list[list[float]]) -> list[tuple[float, str]]:
    """The last loss of every part."""
    ends = accumulate(stage["steps"] for stage in stages)
    last = [[loss for step, loss in log if step <= end][-1] for end in ends]
    return [(loss, f"at the end of part {n}") for n, loss in enumerate(last, 1)]


def _parameters(weights: Path) -> int:
    with safe_open(weights, "pt") as file:
        return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=[spec.name for spec in catalog.CATALOG.values() if spec.tiny])
    parser.add_argument("--prompts", type=int, help="prompts per task (default: all)")
    options = parser.parse_args()
    spec = catalog.spec(options.target)
    measured = measure(load.load(spec), options.prompts)
    print(write(spec, measured).read_text())


if __name__ == "__main__":
    main()
