"""Spiffy: a graph of states calibrated offline, and its variants (arXiv 2509.18085)."""

import math
from collections.abc import Sequence

from drafters import calibration
from drafters.base import Drafter, DrafterCard, DraftView, register
from drafters.calibration import Calibration
from drafters.formulas import Draft, Formula, drafts
from suite.decoding.policy import Policy
from suite.decoding.state import MASK, State

PRUNED_FROM = 10
"""Formulas that `spiffy-pruned` chooses from (the paper's D)."""


class Spiffy(Drafter):
    """The calibrated graph that the target's own decodes reached most, the same in every pass.

    Its states are chosen by degree-1 accumulation. Those that the block has no room for are left out, without others
    in their place. A drafter that was not attached to a target has no graph, and proposes nothing.
    """

    name = "spiffy"

    def __init__(self, coupled: bool = True) -> None:
        self.coupled = coupled
        self.formulas: Sequence[Formula] = ()
        self.calibration: Calibration | None = None
        if not coupled:
            self.name += "-uncoupled"

    def attach(self, target: str, policy: Policy) -> None:
        self.calibration = calibration.find(target, policy)
        self.formulas = self.calibration.accumulated

    def card(self) -> DrafterCard:
        return self.calibration.card if self.calibration else DrafterCard("calibrated")

    def propose(self, view: DraftView, rows: int) -> list[State]:
        return [draft.state for draft in drafts(self.formulas[:rows], view, coupled=self.coupled)]


class SpiffyCoverage(Spiffy):
    """As spiffy, its states chosen for the number of them that are accepted in a row."""

    name = "spiffy-coverage"

    def attach(self, target: str, policy: Policy) -> None:
        self.calibration = calibration.find(target, policy)
        self.formulas = self.calibration.covering


class SpiffyPruned(Spiffy):
    """As spiffy with 10 states, of which each pass keeps the likeliest that fit.

    A state's score is the geometric mean of its local score, which is that of its tokens' stale probabilities, and
    of its children's score, which is that of theirs. A state is kept only after one that it adds a step to.
    """

    name = "spiffy-pruned"

    def propose(self, view: DraftView, rows: int) -> list[State]:
        found = drafts(self.formulas[: max(rows, PRUNED_FROM)], view, coupled=self.coupled)
        return [draft.state for draft in pruned(found, rows)]


def pruned(found: Sequence[Draft], most: int) -> list[Draft]:
    """The drafts with the best scores, `most` at most, connected."""
    children = [[n for n, child in enumerate(found) if _follows(child, draft)] for draft in found]
    scores: dict[int, float] = {}
    for n in sorted(range(len(found)), key=lambda n: -found[n].depth):
        local = _geometric_mean(found[n].chances)
        below = [scores[child] for child in children[n]]
        scores[n] = _geometric_mean([local, _geometric_mean(below)]) if below else local
    kept: list[int] = []
    open_ = {n for n, draft in enumerate(found) if draft.depth == 1}
    while open_ and len(kept) < most:
        best = min(open_, key=lambda n: (-scores[n], n))
        kept.append(best)
        open_ = (open_ | set(children[best])) - set(kept)
    return [found[n] for n in kept]


def _follows(child: Draft, parent: Draft) -> bool:
    """Whether the child is the parent with one step more."""
    return child.depth == parent.depth + 1 and all(
        old in (MASK, new) for old, new in zip(parent.state, child.state, strict=True)
    )


def _geometric_mean(values: Sequence[float]) -> float:
    return math.prod(values) ** (1 / len(values))


for _cls in (Spiffy, SpiffyPruned, SpiffyCoverage):
    register(_cls, uncoupled={"coupled": False})
