"""Training-free best-first search over the stale distributions, after DDTree (arXiv 2604.12989)."""

import heapq
import math

from drafters.base import Drafter, DraftView, register
from suite.decoding.state import State, fill, masked

SHARPNESS = 10.0
RANKS = 2


class BestFirst(Drafter):
    """Expand the most likely state first; the likelihood of a path is the product over its steps of
    softmax over the open positions of (SHARPNESS x stale confidence), times the chance of the token.

    Paths that meet in one state share its row: their likelihoods add up.
    """

    name = "best-first"

    def __init__(self, coupled: bool = True) -> None:
        self.coupled = coupled
        if not coupled:
            self.name += "-uncoupled"

    def propose(self, view: DraftView, rows: int) -> list[State]:
        likelihood: dict[State, float] = {view.state: 1.0}
        heap: list[tuple[float, State]] = [(-1.0, view.state)]
        drafts: dict[State, None] = {}
        while heap and len(drafts) < rows:
            negative, state = heapq.heappop(heap)
            if state in drafts or -negative < likelihood[state]:  # expanded already, or a stale entry
                continue
            if state != view.state:
                drafts[state] = None
            for child, chance in self._children(view, state):
                if child not in drafts:
                    likelihood[child] = likelihood.get(child, 0.0) + likelihood[state] * chance
                    heapq.heappush(heap, (-likelihood[child], child))
        return list(drafts)

    def _children(self, view: DraftView, state: State) -> list[tuple[State, float]]:
        open_ = masked(state)
        if len(open_) == 1:  # a complete state has no step left to verify
            return []
        choice = view.choice(len(state) - len(open_), coupled=self.coupled)
        weights = [math.exp(SHARPNESS * choice.confidences[i][0]) for i in open_]
        total = sum(weights)
        return [
            (fill(state, [i], [choice.tokens[i][rank]]), weight / total * choice.chances[i][rank])
            for i, weight in zip(open_, weights, strict=True)
            for rank in range(min(RANKS, len(choice.tokens[i])))
            if choice.chances[i][rank] > 0
        ]


register(BestFirst, uncoupled={"coupled": False})
