"""Train a tiny target as its family is trained: first autoregressively, then adapted to block diffusion.

* SDAR (arXiv 2510.06303): every answer block gets noised copies that attend to the clean earlier blocks and,
  bidirectionally, to themselves; the noise level p is drawn per block (stratified over the batch) and the
  cross-entropy of the masked positions is weighted 1/p.
* Fast-dLLM v2 (arXiv 2509.26328): the same, but row i-1 predicts token i, as before the adaptation. A block's
  first token is never masked: the clean blocks' last rows learn it.
* LLaDA (arXiv 2502.09992), Dream (arXiv 2508.15487): the whole conversation attends to all of itself; every noised
  copy of an answer block is a sequence of its own, in which later blocks are masked. Dream's row i-1 predicts token i.

A step with full attention costs as much as one with block-causal attention and teaches a third of the blocks, so
those two learn the tasks block-causally first, unlike their models: Dream has Fast-dLLM for an ancestor.

`python -m suite.targets.tiny.train tiny-sdar-b16` makes the checkpoint again from its seed. Work in
progress lies under `--work`, is saved every few minutes, and is taken up again by the same command.
"""

import argparse
import json
import math
import os
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from suite.targets.tiny.text import build_tokenizer, samples

SAVE_SECONDS = 120


@dataclass(frozen=True)
class Stage:
    """`kind`: "causal" (next token), "block-causal" or "full" (noised blocks, by the attention they see).

    `steps` are optimiser steps of `batch` conversations, `copies` the noised copies of each answer block, `rate` the
    peak of the learning rates as a share of the recipe's.
    """

    kind: str
    steps: int
    batch: int = 32
    copies: int = 2
    rate: float = 1.0


@dataclass(frozen=True)
class Recipe:
    """All that decides the weights.

    `shift`: 1 where row i-1 predicts token i. `experts`: 0 for a dense feed-forward; of several, two work on each
    token. `ancestor`: the target of the same shape whose finished weights it begins with.
    """

    native_class: str
    block: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    stages: tuple[Stage, ...]
    experts: int = 0
    shift: int = 0
    ancestor: str = ""
    vocab_size: int = 832
    muon_lr: float = 0.02
    adam_lr: float = 3e-3
    seed: int = 0

    @property
    def steps(self) -> int:
        return sum(stage.steps for stage in self.stages)


_DENSE: dict[str, Any] = {"hidden": 128, "layers": 4, "heads": 4, "kv_heads": 2, "intermediate": 384}
_DEEP: dict[str, Any] = {"hidden": 96, "layers": 6, "heads": 4, "kv_heads": 2, "intermediate": 288}
_CAUSAL, _FULL = Stage("causal", 600), Stage("full", 1600, batch=24, copies=1, rate=0.5)

RECIPES = {
    "tiny-sdar-b16": Recipe("Qwen3ForCausalLM", 16, **_DENSE, stages=(_CAUSAL, Stage("block-causal", 5000))),
    "tiny-sdar-b8": Recipe("Qwen3ForCausalLM", 8, **_DEEP, stages=(_CAUSAL, Stage("block-causal", 3000))),
    "tiny-sdar-moe-b16": Recipe(
        "Qwen3MoeForCausalLM",
        16,
        **_DENSE | {"intermediate": 80},
        experts=8,
        stages=(_CAUSAL, Stage("block-causal", 3000)),
    ),
    "tiny-llada": Recipe(
        "LlamaForCausalLM",
        16,
        **_DENSE | {"kv_heads": 4},
        stages=(_CAUSAL, Stage("block-causal", 3600), _FULL, replace(_FULL, steps=1200)),
    ),
    "tiny-dream": Recipe("Qwen2ForCausalLM", 16, **_DENSE, shift=1, ancestor="tiny-fast-dllm-b16", stages=(_FULL,)),
    "tiny-fast-dllm-b16": Recipe(
        "Qwen2ForCausalLM", 16, **_DENSE, shift=1, stages=(_CAUSAL, Stage("block-causal", 4500))
    ),
}
MAX_ANSWER = 64
"""Tokens of an answer's canvas in a full-attention target: the longest that a tiny task asks for."""


@dataclass(frozen=True)
class Batch:
    """Token ids, positions, labels (-100: no loss) and weights `[n, L]`; attention `[n, 1, L, L]`, True attends."""

    ids: Tensor
    positions: Tensor
    labels: Tensor
    weights: Tensor
    attention: Tensor


Sample = tuple[list[int], int]


def causal_batch(picked: list[Sample], pad: int) -> Batch:
    """Next-token prediction over the whole conversation."""
    length = max(len(ids) for ids, _ in picked)
    ids = torch.tensor([x + [pad] * (length - len(x)) for x, _ in picked])
    labels = torch.tensor([x[1:] + [-100] * (length - len(x) + 1) for x, _ in picked])
    positions = torch.arange(length).expand(len(picked), -1)
    attention = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
    return Batch(ids, positions, labels, (labels >= 0).float(), attention)


Entry = tuple[int, int, int, int, float]
"""Token id, position, copy (0: the clean context; -1: padding), label, weight."""


def block_causal_batch(
    picked: list[Sample], block: int, shift: int, pad: int, mask: int, copies: int, rng: random.Random
) -> Batch:
    """Clean context blocks, then `copies` noised copies of every answer block."""
    levels = _stratified(rng, sum(copies * (len(x) // block - start // block) for x, start in picked))
    rows = []
    for x, start in picked:
        last = len(x) // block - 1
        row: list[Entry] = [(token, n, 0, -100, 0.0) for n, token in enumerate(x[: last * block])]
        for n in range(block - 1, last * block, block):
            if shift and n + 1 >= start:  # a clean block's last row predicts the next block's first token
                row[n] = (x[n], n, 0, x[n + 1], copies / block)
        for copy in range(1, copies + 1):
            for b in range(start // block, last + 1):
                answer = range(max(start, b * block + shift), (b + 1) * block)
                row += _noised(x, range(b * block, (b + 1) * block), answer, next(levels), copy, shift, mask, rng)
        rows.append(row)
    ids, positions, copy_of, labels, weights = _columns(rows, pad)
    blocks = torch.div(positions, block, rounding_mode="floor")
    query, key = blocks[:, :, None], blocks[:, None, :]
    earlier = (copy_of[:, None, :] == 0) & (key < query)
    itself = (query == key) & (copy_of[:, :, None] == copy_of[:, None, :])
    return Batch(ids, positions.clamp(min=0), labels, weights, (earlier | itself)[:, None])


def full_batch(
    picked: list[Sample], block: int, shift: int, pad: int, mask: int, copies: int, rng: random.Random
) -> Batch:
    """One sequence for every noised copy of every answer block: clean before it, masks after it."""
    levels = _stratified(rng, sum(copies * ((len(x) - start) // block) for x, start in picked))
    rows = []
    for x, start in picked:
        for _ in range(copies):
            end = start + block * rng.randint((len(x) - start) // block, MAX_ANSWER // block)
            for first in range(start, len(x), block):
                answer = range(first, first + block)
                row = _noised(x, range(first + block), answer, next(levels), 1, shift, mask, rng)
                rows.append(row + [(mask, n, 1, -100, 0.0) for n in range(first + block, end)])
    ids, positions, copy_of, labels, weights = _columns(rows, pad)
    attention = copy_of[:, :, None] == copy_of[:, None, :]
    return Batch(ids, positions.clamp(min=0), labels, weights, attention[:, None])


def _noised(
    x: list[int], span: range, answer: range, level: float, copy: int, shift: int, mask: int, rng: random.Random
) -> list[Entry]:
    """The positions `span` of `x` with a share `level` of `answer` masked, each a label at the row that predicts it."""
    count = math.ceil(level * len(answer))  # p = count / len(answer)
    hidden = set(rng.sample(answer, count))
    return [
        (
            mask if n in hidden else x[n],
            n,
            copy,
            *((x[n + shift], 1 / count) if n + shift in hidden else (-100, 0.0)),
        )
        for n in span
    ]


def _columns(rows: list[list[Entry]], pad: int) -> list[Tensor]:
    """The entries' five parts as tensors `[n, L]`."""
    length = max(map(len, rows))
    columns = list(zip(*[row + [(pad, -1, -1, -100, 0.0)] * (length - len(row)) for row in rows], strict=True))
    return [torch.tensor([[cell[k] for cell in column] for column in columns]).T for k in range(5)]


def _stratified(rng: random.Random, count: int) -> Iterator[float]:
    """`count` noise levels, one in each of `count` equal parts of (0, 1], in random order."""
    levels = [(n + 1 - rng.random()) / count for n in range(count)]
    rng.shuffle(levels)
    return iter(levels)


class Muon(torch.optim.Optimizer):
    """Momentum orthogonalised by Newton-Schulz in float32 (Jordan et al. 2024); torch's own runs it in bfloat16,
    which many CPUs only emulate."""

    def __init__(self, parameters: Any, lr: float, momentum: float = 0.95, weight_decay: float = 0.01) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in group["params"]:
                velocity = self.state[weight].setdefault("velocity", torch.zeros_like(weight))
                velocity.lerp_(weight.grad, 1 - group["momentum"])
                update = _orthogonal(weight.grad.lerp(velocity, group["momentum"]))
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.add_(update, alpha=-group["lr"] * max(1, weight.shape[-2] / weight.shape[-1]) ** 0.5)


def _orthogonal(x: Tensor) -> Tensor:
    """Of each matrix `[..., m, n]`."""
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    return x.mT if tall else x


class Training:
    """One run from the seed to the last step, saved every `SAVE_SECONDS` and on every change of stage."""

    def __init__(self, recipe: Recipe, work: Path) -> None:
        self.recipe, self.work = recipe, work
        torch.manual_seed(recipe.seed)
        self.tokenizer = build_tokenizer(recipe.vocab_size, recipe.seed)
        self.model: PreTrainedModel = getattr(transformers, recipe.native_class)(model_config(recipe, self.tokenizer))
        matrices = [p for n, p in self.model.named_parameters() if p.ndim >= 2 and ".layers." in n]
        others = [p for n, p in self.model.named_parameters() if not (p.ndim >= 2 and ".layers." in n)]
        self.optimizers: list[torch.optim.Optimizer] = [
            Muon(matrices, recipe.muon_lr),
            torch.optim.AdamW(others, recipe.adam_lr, betas=(0.9, 0.95), weight_decay=0.01),
        ]
        self.rates = [recipe.muon_lr, recipe.adam_lr]
        self.step, self.seconds = 0, 0.0
        self.log: list[tuple[int, float]] = []
        work.mkdir(parents=True, exist_ok=True)
        if (work / "state.pt").exists():
            self._load()
        elif recipe.ancestor:
            self.model.load_state_dict(load_file(Path(__file__).parent / recipe.ancestor / "model.safetensors"))

    def run(self) -> None:
        total = self.recipe.steps
        saved, recent = time.monotonic(), 0.0
        while self.step < total:
            began = time.monotonic()
            stage, of_stage = self._stage()
            batch = self._batch(stage, random.Random(f"{self.recipe.seed}/{self.step}"))
            rate = stage.rate * _schedule(of_stage, stage.steps, floor=0.3 if stage.kind == "causal" else 0.0)
            logits = self.model(
                batch.ids, attention_mask=batch.attention, position_ids=batch.positions, use_cache=False
            )
            wanted = batch.labels >= 0
            losses = F.cross_entropy(logits.logits[wanted], batch.labels[wanted], reduction="none")
            loss = (losses * batch.weights[wanted]).sum() / batch.weights.sum()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            for optimizer, peak in zip(self.optimizers, self.rates, strict=True):
                for group in optimizer.param_groups:
                    group["lr"] = peak * rate
                optimizer.step()
                optimizer.zero_grad()
            recent += (loss.item() - recent) / min(50, of_stage + 1)
            self.step += 1
            self.seconds += time.monotonic() - began
            if self.step % 50 == 0:
                self.log.append((self.step, round(recent, 4)))
                print(f"step {self.step}/{total}  loss {recent:.3f}  {self.seconds / self.step:.2f} s/step", flush=True)
            if time.monotonic() - saved > SAVE_SECONDS or of_stage + 1 == stage.steps:
                self._save()
                saved = time.monotonic()

    def _stage(self) -> tuple[Stage, int]:
        """The stage that the next step is in, and which step of it that is."""
        of_stage = self.step
        for stage in self.recipe.stages:
            if of_stage < stage.steps:
                return stage, of_stage
            of_stage -= stage.steps
        raise ValueError("the training is at its end")

    def _batch(self, stage: Stage, rng: random.Random) -> Batch:
        recipe, pad, mask = self.recipe, self.tokenizer.pad_token_id, self.tokenizer.mask_token_id
        picked = _bucket(self.tokenizer, recipe.block, stage, rng)
        if stage.kind == "causal":
            return causal_batch(picked, pad)
        noised = {"block-causal": block_causal_batch, "full": full_batch}[stage.kind]
        return noised(picked, recipe.block, recipe.shift, pad, mask, stage.copies, rng)

    def _save(self) -> None:
        state = {
            "recipe": asdict(self.recipe),
            "step": self.step,
            "seconds": self.seconds,
            "log": self.log,
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        torch.save(state, self.work / "state.tmp")
        os.replace(self.work / "state.tmp", self.work / "state.pt")

    def _load(self) -> None:
        state = torch.load(self.work / "state.pt", weights_only=True)
        if state["recipe"] != asdict(self.recipe):
            raise SystemExit(f"{self.work}/state.pt was trained with another recipe; name another --work folder")
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.seconds = state["step"], state["seconds"]
        self.log = [tuple(entry) for entry in state["log"]]

    def export(self, folder: Path) -> None:
        """Write the checkpoint in Hugging Face form: float16 safetensors, config, tokenizer."""
        folder.mkdir(parents=True, exist_ok=True)
        half = type(self.model)(self.model.config)
        half.load_state_dict(self.model.state_dict())
        half.to(torch.float16).save_pretrained(folder)  # type: ignore[arg-type]
        self.tokenizer.save_pretrained(folder)
        record = {"recipe": asdict(self.recipe), "steps": self.step, "seconds": round(self.seconds), "loss": self.log}
        (folder / "training.json").write_text(json.dumps(record) + "\n")


def model_config(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> PretrainedConfig:
    experts = {
        "num_experts": recipe.experts,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": recipe.intermediate,
        "norm_topk_prob": True,
    }
    config: PretrainedConfig = getattr(transformers, recipe.native_class).config_class(
        vocab_size=len(tokenizer),
        hidden_size=recipe.hidden,
        intermediate_size=recipe.intermediate,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.kv_heads,
        head_dim=recipe.hidden // recipe.heads,
        max_position_embeddings=512,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        attn_implementation="sdpa",
        **{"mask_token_id": tokenizer.mask_token_id, "block_size": recipe.block},
        **(experts if recipe.experts else {}),
    )
    return config


def _bucket(tokenizer: PreTrainedTokenizerFast, block: int, stage: Stage, rng: random.Random) -> list[Sample]:
    """One batch of similar length, so that little is padded."""
    stream = samples(tokenizer, block, rng.getrandbits(32), "answer" if stage.kind == "full" else "sequence")
    pool = sorted((next(stream) for _ in range(4 * stage.batch)), key=lambda sample: (len(sample[0]), sample[1]))
    start = rng.randrange(4) * stage.batch
    return pool[start : start + stage.batch]


def _schedule(step: int, steps: int, floor: float) -> float:
    """Linear warm-up over 50 steps, then linearly down to `floor`."""
    return min(1.0, (step + 1) / 50) * (floor + (1 - floor) * (1 - step / steps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=sorted(RECIPES))
    parser.add_argument("--work", type=Path, help="folder for work in progress (default: build/<target>)")
    parser.add_argument("--out", type=Path, help="folder for the checkpoint (default: the shipped one)")
    parser.add_argument("--export-only", action="store_true", help="write the checkpoint of the last saved step")
    options = parser.parse_args()
    training = Training(RECIPES[options.target], options.work or Path("build") / options.target)
    if not options.export_only:
        training.run()
    training.export(options.out or Path(__file__).parent / options.target)


if __name__ == "__main__":
    main()
