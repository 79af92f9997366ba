"""SPOT (arXiv 2610.22543): a small network that has learned which position commits next.

It reads the target's output distributions only, so one network serves every target. Where the paper leaves things open
(its features, its search), what is here is this project's: see `features`.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Self

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from drafters.base import STALE_TOKENS, Choice, Drafter, DrafterCard, DraftView, register
from drafters.search import best_first
from suite.decoding.policy import Policy
from suite.decoding.state import MASK, State, fill, masked
from suite.errors import UserError, first_line

SHIPPED = Path(__file__).parent / "weights"
FEATURES = STALE_TOKENS + 20
LIKE_AT, OPEN_AT, FILLED_AT, HELD_AT, ODDS_AT = -16, -13, -11, -7, -3
"""Where the features tell what a position has in common with others, that it is open, that it was filled before the
pass, how likely it was to hold what others hold now, and the drawn log-odds."""
RANKS = 2
TOGETHER = 4
"""States that one call of the network scores at most; of more, many would never be asked about."""
FLOOR = -20.0
ODDS = 16.0
"""Log-probabilities and log-odds are clamped to these before they are scaled to about [-1, 1]."""


class Reader:
    """What the network reads of a view and of states drafted from it.

    Of each position that was open in the stale pass: its stale log-probabilities, their entropy, the lead of the first
    over the second, the log-odds of the first (a probability near 1 says little, its distance from 1 much) and its rank
    in them; how much its distribution overlaps with those on both sides, and with any at most (two positions that want
    the same token wait for each other). Of each state: what is open, what was filled since that pass (what was
    committed last, and what is drafted) and before it, here and on both sides; how far the draft reaches; how likely
    the tokens filled since that pass were here, those on both sides and any at most; the token that the shared noise
    draws in the step to come: its log-probability, log-odds, lead, and whether it is the most likely one.
    """

    def __init__(self, view: DraftView, coupled: bool = True) -> None:
        self.view, self.coupled = view, coupled
        size = len(view.state)
        self._open = torch.tensor([token == MASK for token in view.before])
        logp = F.pad(view.log_probs, (0, STALE_TOKENS - view.log_probs.shape[-1]), value=FLOOR).clamp(min=FLOOR)
        odds = log_odds(logp, torch.zeros(size, 1, dtype=torch.long))
        self._ids, where = torch.unique(view.token_ids, return_inverse=True)
        chances = logp[:, : where.shape[-1]].exp() * self._open[:, None]
        self._chances = logp.new_zeros(size, len(self._ids)).scatter_(-1, where, chances)
        rank = 1 / (1 + (odds[:, None] < odds[None, :]).float().mul(self._open.float()).sum(-1))
        shape = [-(logp.exp() * logp).sum(-1) / 3, (logp[:, 0] - logp[:, 1]) / 8, odds / 8, rank]
        shape += _about((self._chances.sqrt() @ self._chances.sqrt().T).fill_diagonal_(0))  # Bhattacharyya coefficients
        self._base = torch.cat([1 + logp / 10, torch.stack(shape, -1)], -1) * self._open[:, None]
        self._logp = logp
        self._draws: dict[int, Tensor] = {}

    def __call__(self, states: Sequence[State]) -> Tensor:
        """`[n, B, FEATURES]`."""
        now = (tokens := torch.tensor(states)) == MASK
        drafted = self._open & ~now
        beside = F.pad((~now).float(), (1, 1), value=0.5)
        reach = drafted.sum(-1, keepdim=True).expand_as(now) / 8
        own = [now, drafted, ~self._open.expand_as(now), beside[:, :-2], beside[:, 2:], reach]
        own += _about(self._likely(tokens) * drafted[:, None] * now[..., None])
        drawn = self._drawn([len(state) - state.count(MASK) for state in states]) * now[..., None]
        return torch.cat([self._base.expand(len(states), -1, -1), torch.stack(own, -1), drawn], -1)

    def _likely(self, tokens: Tensor) -> Tensor:
        """How likely position i was to hold the token that is at j now, `[n, B (i), B (j)]`."""
        at = torch.searchsorted(self._ids, tokens).clamp(max=len(self._ids) - 1)
        likely: Tensor = self._chances[:, at] * (self._ids[at] == tokens)
        return likely.transpose(0, 1)

    def _drawn(self, committed: Sequence[int]) -> Tensor:
        """Of the tokens that coming steps draw: log-probability, log-odds, lead, whether it is the most likely:
        `[n, B, 4]`."""
        if not self.coupled or self.view.policy.temperature == 0:
            committed = [0] * len(committed)  # all steps draw alike
        if new := [n for n in dict.fromkeys(committed) if n not in self._draws]:
            scores = torch.stack([self.view.scores(n, coupled=self.coupled) for n in new])
            scores, order = scores.sort(dim=-1, descending=True, stable=True)
            first, logp = order[..., :1], self._logp.expand(len(new), -1, -1)
            lead = (scores[..., 0] - scores[..., 1]).clamp(max=ODDS).float() / 8
            parts = [1 + logp.gather(-1, first)[..., 0] / 10, log_odds(logp, first) / 8, lead, first[..., 0] == 0]
            self._draws.update(zip(new, torch.stack(parts, -1), strict=True))
        return torch.stack([self._draws[n] for n in committed])


def _about(pairs: Tensor) -> list[Tensor]:
    """Of what two positions have in common, `[..., B, B]`: with the left, with the right, and at most; `[..., B]`."""
    left, right = pairs.diagonal(-1, -2, -1), pairs.diagonal(1, -2, -1)
    return [F.pad(left, (1, 0)), F.pad(right, (0, 1)), pairs.amax(-1)]


def log_odds(logp: Tensor, which: Tensor) -> Tensor:
    """log(p / rest of the top k) of a token at each position, clamped; `logp` `[..., B, k]`, `which` `[..., B, 1]`."""
    others = logp.scatter(-1, which, -math.inf).logsumexp(-1)
    return (logp.gather(-1, which)[..., 0] - others).clamp(-ODDS, ODDS)


@dataclass(frozen=True)
class SpotConfig:
    """Shape of the network; 0.61 M parameters. `slots`: the longest block."""

    slots: int = 64
    width: int = 128
    heads: int = 8
    feed_forward: int = 512
    layers: int = 3


class Layer(nn.Module):
    """One pre-norm encoder layer; every position attends to those of `seen` `[n, 1, 1, L]`."""

    def __init__(self, config: SpotConfig, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, nn.Dropout(dropout)
        self.norm, self.norm_2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.qkv, self.out = nn.Linear(config.width, 3 * config.width), nn.Linear(config.width, config.width)
        self.up, self.down = nn.Linear(config.width, config.feed_forward), nn.Linear(config.feed_forward, config.width)

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        n, size, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, size, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        looked = F.scaled_dot_product_attention(q, k, v, seen).transpose(1, 2).reshape(n, size, width)
        x = x + self.dropout(self.out(looked))
        update: Tensor = self.dropout(self.down(F.gelu(self.up(self.norm_2(x)))))
        return x + update


class SpotNetwork(nn.Module):
    """`[n, L, FEATURES]` to two scores a position `[n, L, 2]`: that it commits next, and that its drawn token is right.

    What was filled before the stale pass is not looked at but for the flags beside it, so those positions may be left
    out; `slots` `[L]` or `[n, L]` then tells which are there. Scores start from the log-odds of the drawn token: an
    untrained network orders positions as `best-first` does. `dropout`: of what a layer adds, in training.
    """

    def __init__(self, config: SpotConfig = SpotConfig(), dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.slots = nn.Embedding(config.slots, config.width)
        self.read = nn.Linear(FEATURES, config.width)
        self.layers = nn.ModuleList(Layer(config, dropout) for _ in range(config.layers))
        self.norm, self.head = nn.LayerNorm(config.width), nn.Linear(config.width, 2)
        nn.init.normal_(self.slots.weight, std=0.02)
        nn.init.zeros_(self.head.weight)
        self.prior = nn.Parameter(torch.tensor([8.0, 4.0]))

    def forward(self, x: Tensor, slots: Tensor | None = None) -> Tensor:
        seen = (x[..., FILLED_AT] == 0)[:, None, None]
        hidden = self.read(x) + self.slots(torch.arange(x.shape[1]) if slots is None else slots)
        for layer in self.layers:
            hidden = layer(hidden, seen)
        scores: Tensor = self.head(self.norm(hidden)) + self.prior * x[..., ODDS_AT, None]
        return scores

    def save_pretrained(self, folder: Path, card: str) -> None:
        """Write weights (float16), shape and card."""
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: weight.half().contiguous() for name, weight in self.state_dict().items()}
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        (folder / "config.json").write_text(json.dumps(asdict(self.config), indent=1) + "\n", encoding="utf-8")
        (folder / "README.md").write_text(card, encoding="utf-8")

    @classmethod
    def from_pretrained(cls, folder: Path) -> Self:
        """Raises UserError when the folder holds no such network."""
        try:
            network = cls(SpotConfig(**json.loads((folder / "config.json").read_text(encoding="utf-8"))))
            weights = load_file(folder / "model.safetensors")
            network.load_state_dict({name: weight.float() for name, weight in weights.items()})
        except Exception as error:
            raise UserError(f"{folder}: no drafter network that can be read ({first_line(error)})") from error
        return network.eval()


def weights_hash(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:16]


@cache
def network_of(folder: Path) -> SpotNetwork:
    return SpotNetwork.from_pretrained(folder)


class Spot(Drafter):
    """The learned order: best-first search with a network's chances of positions and tokens."""

    name = "spot"
    nested = True
    weights = SHIPPED / "spot"

    def __init__(self, coupled: bool = True, network: SpotNetwork | None = None) -> None:
        self.coupled = coupled
        self.network = network or network_of(self.weights)
        if not coupled:
            self.name += "-uncoupled"

    def attach(self, target: str, policy: Policy) -> None:
        if policy.block_size > (most := self.network.config.slots):
            raise UserError(f"{self.name} drafts blocks of up to {most} positions; {target} has {policy.block_size}")

    def propose(self, view: DraftView, rows: int) -> list[State]:
        reader = Reader(view, self.coupled)
        return best_first(view.state, rows, lambda states: self._children(reader, states), TOGETHER)

    def card(self) -> DrafterCard:
        """Raises UserError when the weights do not come with what they were trained on."""
        parameters = sum(weight.numel() for weight in self.network.parameters())
        try:
            source = json.loads((self.weights / "training.json").read_text(encoding="utf-8"))["source"]
            home, tasks = ", ".join(source["targets"]), tuple(source["tasks"])
            weights = weights_hash(self.weights)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{self.weights}: does not say what it was trained on ({first_line(error)})") from error
        # training reads traces of the train split, and refuses others
        return DrafterCard("learned", parameters, home, tasks, "train", weights)

    @torch.inference_mode()
    def _children(self, reader: Reader, states: Sequence[State]) -> list[list[tuple[State, float]]]:
        view, slots = reader.view, masked(reader.view.before)
        scores = self.network(reader(states)[:, slots], torch.tensor(slots))
        steps = []
        for state, scored in zip(states, scores, strict=True):
            at = [n for n, i in enumerate(slots) if state[i] == MASK]
            choice = view.choice(len(state) - len(at), coupled=self.coupled)
            # a complete state has no step left to verify
            steps.append(self.steps(state, masked(state), scored[at], choice) if len(at) > 1 else [])
        return steps

    def steps(self, state: State, open_: list[int], scores: Tensor, choice: Choice) -> list[tuple[State, float]]:
        """What one step makes of a state, with its chances, given the scores `[open, 2]` of its open positions.

        The first token has the network's chance of being right; the second ranked has what is left to it.
        """
        steps = []
        for i, next_, right in zip(
            open_, scores[:, 0].softmax(-1).tolist(), scores[:, 1].sigmoid().tolist(), strict=True
        ):
            first, *others = choice.chances[i]
            shares = [right, *((1 - right) * chance / max(1e-9, 1 - first) for chance in others)][:RANKS]
            steps += [
                (fill(state, [i], [token]), next_ * share)
                for token, share in zip(choice.tokens[i], shares, strict=False)
                if share > 0
            ]
        return steps


register(Spot, uncoupled={"coupled": False})
