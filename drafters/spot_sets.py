"""SPOT-Sets (arXiv 2610.22543): drafts of whole commit sets, for decoders that commit several positions a step."""

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from drafters import calibration
from drafters.base import Choice, DrafterCard, register
from drafters.calibration import Calibration
from drafters.spot import OPEN_AT, SHIPPED, Spot, SpotNetwork, network_of, weights_hash
from suite.decoding.policy import Policy
from suite.decoding.state import State, fill
from suite.errors import UserError

if TYPE_CHECKING:  # suite.trace replays drafters, hence imports them
    from suite.trace import Header, PromptTrace

SETS = 8
"""Commit sets that a state is continued with."""


class SpotSets(Spot):
    """The learned commit sets: the likeliest first, then those that differ at the least certain positions.

    The network says of each open position how likely the next step commits it. A set is right only as a whole, tokens
    included. Where no position passes the threshold, the decoder commits its most confident one, so the chance of the
    empty set goes to the single positions.
    """

    name = "spot-sets"
    weights = SHIPPED / "spot-sets"

    def __init__(
        self, coupled: bool = True, network: SpotNetwork | None = None, scale: float = 1.0, bias: float = 0.0
    ) -> None:
        super().__init__(coupled, network)
        self.scale, self.bias = scale, bias
        self.calibration: Calibration | None = None

    def attach(self, target: str, policy: Policy) -> None:
        super().attach(target, policy)
        self.calibration = calibration.find(target, policy)
        fitted = str(policy.rule) != "exact"  # which commits one position a step: nothing to fit
        if fitted and self.calibration.network != weights_hash(self.weights):
            raise UserError(
                f"the calibration of {target} for {policy.rule} fits other weights of spot-sets; "
                f"spotbench calibrate --target {target} --rule '{policy.rule}' makes it anew"
            )
        self.scale, self.bias = self.calibration.scale, self.calibration.bias

    def card(self) -> DrafterCard:
        card = super().card()
        return replace(card, data=f"{card.data}+{self.calibration.card.data}") if self.calibration else card

    def steps(self, state: State, open_: list[int], scores: Tensor, choice: Choice) -> list[tuple[State, float]]:
        logits = (self.scale * scores[:, 0] + self.bias).tolist()
        right = scores[:, 1].sigmoid().tolist()
        steps: dict[State, float] = {}
        for chosen, chance in commit_sets(logits, SETS):
            if len(chosen) == len(open_):
                continue
            where = [open_[n] for n in chosen]
            sure = math.prod(right[n] for n in chosen)
            after = fill(state, where, [choice.tokens[i][0] for i in where])
            steps[after] = steps.get(after, 0.0) + chance * sure
            doubtful = min(chosen, key=lambda n: right[n])
            tokens = choice.tokens[open_[doubtful]]
            if len(tokens) > 1 and right[doubtful] > 0:  # the least sure token, second ranked
                other = fill(after, [open_[doubtful]], [tokens[1]])
                steps[other] = steps.get(other, 0.0) + chance * sure / right[doubtful] * (1 - right[doubtful]) / 2
        return [(after, chance) for after, chance in steps.items() if chance > 0]


def commit_sets(logits: Sequence[float], count: int) -> Iterator[tuple[list[int], float]]:
    """The likeliest non-empty sets of positions (ascending indices) with their chances, likeliest first.

    Positions commit independently with the logistic of their logit; the chance of the empty set is shared among single
    positions in proportion to their odds.
    """
    found: dict[tuple[int, ...], float] = {}
    best = {n for n, x in enumerate(logits) if x > 0}
    top = math.exp(-sum(math.log1p(math.exp(-abs(x))) for x in logits))  # every position on its likelier side
    doubt = sorted(range(len(logits)), key=lambda n: (abs(logits[n]), n))
    heap: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    while heap and len(found) <= count:
        cost, flips = heapq.heappop(heap)
        found[tuple(sorted(best ^ {doubt[n] for n in flips}))] = top * math.exp(-cost)
        last = flips[-1] if flips else -1
        if last + 1 < len(doubt):
            following = abs(logits[doubt[last + 1]])
            heapq.heappush(heap, (cost + following, (*flips, last + 1)))
            if flips:
                heapq.heappush(heap, (cost + following - abs(logits[doubt[last]]), (*flips[:-1], last + 1)))
    empty = found.pop((), 0.0)
    if empty:
        weights = [math.exp(x - max(logits)) for x in logits]
        for n, weight in enumerate(weights):
            found[(n,)] = found.get((n,), 0.0) + empty * weight / sum(weights)
    ranked = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    yield from ((list(chosen), chance) for chosen, chance in ranked[:count])


@torch.no_grad()
def _logits(traces: "Iterable[tuple[Header, PromptTrace]]", network: SpotNetwork) -> tuple[Tensor, Tensor]:
    """Of every open position of some traces: the network's logit, and whether the next step committed it.

    Raises UserError where no block has two steps.
    """
    from drafters.examples import examples  # which reads traces, and these replay drafters

    logits, commits = [], []
    for header, one in traces:
        for inputs, committed, _, _ in examples(one, header, reach=4):
            open_ = inputs[..., OPEN_AT] > 0
            logits.append(network(inputs.float())[..., 0][open_])
            commits.append(committed[open_])
    if not logits:
        raise UserError("nothing to fit spot-sets to: no block of these traces takes two steps; take more prompts")
    return torch.cat(logits), torch.cat(commits)


def fit(traces: "Iterable[tuple[Header, PromptTrace]]", network: SpotNetwork | None = None) -> tuple[float, float]:
    """The scale and the bias for the target of some traces."""
    return platt(*_logits(traces, network or network_of(SpotSets.weights)))


def platt(logits: Tensor, commits: Tensor) -> tuple[float, float]:
    """Scale and bias that make the logits `[n]` of another target fit what it committed `[n]`: Platt scaling."""
    from drafters.training import minimised

    def loss(at: Tensor) -> Tensor:
        return torch.nn.functional.binary_cross_entropy_with_logits(at[0] * logits + at[1], commits.float())

    scale, bias = minimised([1.0, 0.0], loss)
    return scale, bias


register(SpotSets, uncoupled={"coupled": False})
