"""Train SPOT and SPOT-Sets on examples, seeded and resumable.

Where steps commit one position the network learns a choice among the open ones (SPOT), else of each whether it commits
(SPOT-Sets).
"""

import json
import math
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from drafters.examples import Batch, Data
from drafters.spot import FEATURES, OPEN_AT, SpotConfig, SpotNetwork
from suite.errors import UserError

SAVE_SECONDS = 120
AT_ONCE = 64
"""Examples that are scored at once in training, out of a step's; they are the shorter for it."""
NEVER = -1e4
"""The score of a position that cannot commit; infinity times a scale has no gradient."""


@dataclass(frozen=True)
class Recipe:
    """All that decides the weights besides the traces. `reach`: steps drafted at most; `decay`: how much rarer each
    further one is drawn; `token_weight`: of the second loss; `dropout`: of what a layer adds. Dropout makes a network
    less sure of itself on other targets, and learn more slowly on its own."""

    steps: int = 6000
    batch: int = 256
    rate: float = 1e-3
    warm_up: int = 200
    reach: int = 12
    decay: float = 0.85
    token_weight: float = 0.5
    dropout: float = 0.0
    weight_decay: float = 0.01
    seed: int = 0


class Training:
    """One run from the seed to the last step, saved every `SAVE_SECONDS`; the same command takes it up again."""

    def __init__(self, recipe: Recipe, data: Data, work: Path) -> None:
        self.recipe, self.data, self.work = recipe, data, work
        if (longest := max(data.source["block_sizes"])) > SpotConfig.slots:
            raise UserError(f"blocks of {longest} positions; the network has room for {SpotConfig.slots}")
        torch.manual_seed(recipe.seed)
        self.network = SpotNetwork(SpotConfig(), recipe.dropout)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), recipe.rate, weight_decay=recipe.weight_decay)
        self.step, self.seconds, self.loss = 0, 0.0, math.nan
        self.log: list[dict[str, float]] = []
        self._of = {"recipe": asdict(recipe), "data": data.source.get("data", ""), "features": FEATURES}
        work.mkdir(parents=True, exist_ok=True)
        if (work / "state.pt").exists():
            self._load()

    def run(
        self,
        tell: Callable[[int, dict[str, float]], None] = lambda *_: None,
        note: Callable[[dict[str, float]], None] = lambda *_: None,
    ) -> None:
        """`tell` is called after every step with what is known of the run, `note` with every entry of its log."""
        recipe, saved = self.recipe, time.monotonic()
        for entry in self.log:
            note(entry)
        while self.step < recipe.steps:
            began = time.monotonic()
            self.network.train()
            rng = random.Random(f"{recipe.seed}/{self.step}")
            part = rng.choices(self.data.train, [len(one.depth) for one in self.data.train])[0]
            torch.manual_seed(rng.getrandbits(62))
            picked = _draw(recipe.decay ** part.depth.double(), recipe.batch)
            tokens = int(part.commits[picked].sum())
            for group in self.optimizer.param_groups:
                group["lr"] = recipe.rate * _schedule(self.step, recipe)
            self.optimizer.zero_grad()
            loss_now = sum(self._learn(batch, tokens) for batch in part.batches(picked, AT_ONCE))
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
            self.optimizer.step()
            self.loss = loss_now if math.isnan(self.loss) else 0.98 * self.loss + 0.02 * loss_now
            self.step += 1
            self.seconds += time.monotonic() - began
            if self.step % 250 == 0 or self.step == recipe.steps:
                accuracy, _ = self.accuracy(4000)
                self.log.append({"step": self.step, "loss": round(self.loss, 4), "accuracy": round(accuracy, 4)})
                note(self.log[-1])
            if time.monotonic() - saved > SAVE_SECONDS or self.step == recipe.steps:
                self._save()
                saved = time.monotonic()
            tell(self.step, {"loss": self.loss} | (self.log[-1] if self.log else {}))

    def _learn(self, batch: Batch, tokens: int) -> float:
        """Add the gradient of some of a step's examples, and give their part of its loss; `tokens` commit in all."""
        order, token = self._scores(batch)
        right = batch.right[batch.commits].float()
        loss = _of_order(order, batch.commits, self.data.sets).sum() / self.recipe.batch
        of_tokens = F.binary_cross_entropy_with_logits(token, right, reduction="sum") / tokens
        loss = loss + self.recipe.token_weight * of_tokens
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    def _scores(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Of what commits next, `[n, L]`, filled positions out of the race; and of the tokens of those that do."""
        scores = self.network(batch.inputs, batch.slots)
        return scores[..., 0].masked_fill(batch.inputs[..., OPEN_AT] == 0, NEVER), scores[..., 1][batch.commits]

    def _held_out(self, limit: int = 10**9) -> Iterator[Batch]:
        """Of every held-out trace, at most `limit` examples of a block size."""
        for part in self.data.held_out:
            some = torch.linspace(0, len(part.depth) - 1, min(limit, len(part.depth))).long()
            yield from part.batches(some, 1024)

    @torch.inference_mode()
    def accuracy(self, limit: int = 10**9) -> tuple[float, list[float]]:
        """How often the likeliest position (or set) commits next on held-out prompts: with nothing drafted (claim C7),
        and by steps drafted."""
        hits: Counter[int] = Counter()
        seen: Counter[int] = Counter()
        self.network.eval()
        for batch in self._held_out(limit):
            order, _ = self._scores(batch)
            likeliest = F.one_hot(order.argmax(-1), order.shape[-1]).bool()
            if self.data.sets:
                likeliest = torch.where((order > 0).any(-1, keepdim=True), order > 0, likeliest)
            hit = (likeliest == batch.commits).all(-1)
            for d, right in zip(batch.depth.tolist(), hit.tolist(), strict=True):
                seen[d] += 1
                hits[d] += right
        by_depth = [hits[d] / seen[d] for d in sorted(seen)]
        return by_depth[0], by_depth

    @torch.no_grad()
    def temper(self) -> tuple[float, float]:
        """Scale the scores so that they fit held-out prompts best, and say by how much.

        A network is too sure of what it learned by heart (temperature scaling, arXiv 1706.04599), and a search that
        believes it looks too little beside its first guess.
        """
        if self.data.sets:  # fitted to each target by its calibration
            return 1.0, 1.0
        self.network.eval()
        scored, chances, labels = [], [], []
        for batch in self._held_out():
            order, token = self._scores(batch)
            scored.append((order, batch.commits, self.recipe.decay ** batch.depth.float()))
            chances.append(token)
            labels.append(batch.right[batch.commits].float())

        tokens, right = torch.cat(chances), torch.cat(labels)

        def of_order(x: Tensor) -> Tensor:
            losses = [_of_order(x * order, commits, sets=False) @ weights for order, commits, weights in scored]
            return torch.stack(losses).sum() / sum(len(weights) for *_, weights in scored)

        def of_token(x: Tensor) -> Tensor:
            return F.binary_cross_entropy_with_logits(x * tokens, right)

        (on_order,), (on_token,) = minimised([1.0], of_order), minimised([1.0], of_token)
        by = torch.tensor([on_order, on_token])
        for weight in (self.network.head.weight, self.network.head.bias, self.network.prior):
            weight.mul_(by[:, None] if weight.ndim == 2 else by)
        return on_order, on_token

    def export(self, folder: Path, name: str) -> None:
        tempered = self.temper()
        first, by_depth = self.accuracy()
        self.network.save_pretrained(folder, _card(name, self, tempered, first, by_depth))
        record = {
            "recipe": asdict(self.recipe),
            "source": self.data.source,
            "parameters": _count(self.network),
            "steps": self.step,
            "seconds": round(self.seconds),
            "tempered": [round(scale, 4) for scale in tempered],
            "accuracy_by_depth": [round(a, 4) for a in by_depth],
            "log": self.log,
        }
        (folder / "training.json").write_text(json.dumps(record) + "\n", encoding="utf-8")

    def _save(self) -> None:
        state = {
            "of": self._of,
            "step": self.step,
            "loss": self.loss,
            "seconds": self.seconds,
            "log": self.log,
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        torch.save(state, self.work / "state.tmp")
        os.replace(self.work / "state.tmp", self.work / "state.pt")

    def _load(self) -> None:
        state = torch.load(self.work / "state.pt", weights_only=True)
        if state.get("of") != self._of:
            raise UserError(f"{self.work}/state.pt was trained with another recipe or other traces; name another --out")
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds, self.loss, self.log = (state[key] for key in ("step", "seconds", "loss", "log"))


def _draw(weights: Tensor, count: int) -> Tensor:
    """Rows drawn in proportion to float64 weights `[n]`, with replacement; `multinomial` takes at most 2^24 rows."""
    up_to = weights.cumsum(0)
    drawn = torch.searchsorted(up_to, torch.rand(count, dtype=torch.float64) * up_to[-1], right=True)
    return drawn.clamp(max=len(weights) - 1)


def _of_order(order: Tensor, commits: Tensor, sets: bool) -> Tensor:
    """Cross-entropy `[n]` of what commits: one among the open positions, or (`sets`) of each position whether."""
    if sets:
        return F.binary_cross_entropy_with_logits(order, commits.float(), reduction="none").sum(-1)
    return F.cross_entropy(order, commits.int().argmax(-1), reduction="none")


@torch.enable_grad()
def minimised(start: Sequence[float], loss: Callable[[Tensor], Tensor]) -> list[float]:
    """Where a smooth loss of a few numbers is least, near the start where it tells little: what is separable has no
    finite fit."""
    at = torch.tensor(start, requires_grad=True)
    optimizer = torch.optim.LBFGS([at], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(at) + 1e-5 * (at - torch.tensor(start)).square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    found: list[float] = at.tolist()
    return found


def _schedule(step: int, recipe: Recipe) -> float:
    """Linear warm-up, then a cosine to 0."""
    return min(1.0, (step + 1) / recipe.warm_up) * 0.5 * (1 + math.cos(math.pi * step / recipe.steps))


def _card(name: str, training: Training, tempered: tuple[float, float], first: float, by_depth: Sequence[float]) -> str:
    source, recipe = training.data.source, training.recipe
    lines = [
        f"# {name}",
        "",
        f"A drafter network of spotbench (`drafters/spot.py`): {_count(training.network) / 1e6:.2f} M parameters, "
        "float16 safetensors, MIT licence. It reads output distributions only, so it can draft for any target.",
        "",
        f"* Home target: {', '.join(source['targets'])} (weights {', '.join(source['weights'])}).",
        f"* Tasks: {', '.join(source['tasks'])}, train split, {source['prompts']} prompt traces, data "
        f"{source['data']}.",
        f"* Rule: {source['rule']}; temperatures: {', '.join(f'{t:g}' for t in source['temperatures'])}; block sizes: "
        f"{', '.join(map(str, source['block_sizes']))} (room for {training.network.config.slots}); trace seeds: "
        f"{', '.join(map(str, source['seeds']))}.",
        f"* Training: {training.step} of {recipe.steps} steps of {recipe.batch} examples, AdamW {recipe.rate:g}, "
        f"cosine decay, dropout {recipe.dropout:g}, weight decay {recipe.weight_decay:g}, up to {recipe.reach} steps "
        f"drafted, seed {recipe.seed}; {training.seconds / 60:.0f} minutes on a CPU.",
        "* Scores: "
        + (
            "fitted to each target by its calibration."
            if training.data.sets
            else "scaled by {:.2f} (order) and {:.2f} (tokens) to fit held-out prompts.".format(*tempered)
        ),
        f"* Next-commit accuracy on held-out prompts of the train split: {first:.3f} with nothing drafted"
        + (", whole sets." if training.data.sets else "."),
        "",
        "| steps drafted | " + " | ".join(str(n) for n in range(len(by_depth))) + " |",
        "|---" * (len(by_depth) + 1) + "|",
        "| accuracy | " + " | ".join(f"{accuracy:.3f}" for accuracy in by_depth) + " |",
        "",
    ]
    return "\n".join(lines)


def _count(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())
