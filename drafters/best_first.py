"""Training-free best-first search over the stale distributions, after DDTree (arXiv 2604.12989)."""

from drafters.base import Drafter, DraftView, register
from drafters.search import best_first
from suite.decoding.state import State, fill, masked

RANKS = 2
SATURATED = 1e-7
"""What is left of 1 at a float32 confidence that has saturated."""


class BestFirst(Drafter):
    """Expand the most likely state first, by likely order times likely tokens.

    A step's likelihood is the softmax over the open positions of the log-odds of stale confidence, times the
    chance of the token. (Odds rather than the confidences themselves: most of these lie near 1, where only
    their distance from 1 tells them apart.) Paths that meet in one state share its row, and their likelihoods
    add up. Steps fill one position: under a threshold it is right where one position commits.
    """

    name = "best-first"
    nested = True

    def __init__(self, coupled: bool = True) -> None:
        self.coupled = coupled
        if not coupled:
            self.name += "-uncoupled"

    def propose(self, view: DraftView, rows: int) -> list[State]:
        return best_first(view.state, rows, lambda states: [self._children(view, state) for state in states])

    def _children(self, view: DraftView, state: State) -> list[tuple[State, float]]:
        open_ = masked(state)
        if len(open_) == 1:  # a complete state has no step left to verify
            return []
        choice = view.choice(len(state) - len(open_), coupled=self.coupled)
        odds = [choice.confidences[i][0] / (1 - choice.confidences[i][0] + SATURATED) for i in open_]
        total = sum(odds)
        return [
            (fill(state, [i], [choice.tokens[i][rank]]), weight / total * choice.chances[i][rank])
            for i, weight in zip(open_, odds, strict=True)
            for rank in range(min(RANKS, len(choice.tokens[i])))
            if choice.chances[i][rank] > 0
        ]


register(BestFirst, uncoupled={"coupled": False})
