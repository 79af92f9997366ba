"""One path of nested states: by stale confidence (FreeDave = SSD), by position, or at random."""

import random
from abc import abstractmethod

from drafters.base import Choice, Drafter, DrafterCard, DraftView, register
from suite.decoding.state import State, fill, masked


class Nested(Drafter):
    """A chain: every state adds to the one before it what `pick` names, with the stale tokens."""

    nested = True

    def __init__(self, coupled: bool = True) -> None:
        self.coupled = coupled
        if not coupled:
            self.name += "-uncoupled"

    def propose(self, view: DraftView, rows: int) -> list[State]:
        state = view.state
        drafts: list[State] = []
        while len(drafts) < rows:
            open_ = masked(state)
            choice = view.choice(len(state) - len(open_), coupled=self.coupled)
            picked = self.pick(view, choice, open_)
            if len(picked) == len(open_):  # a complete state has no step left to verify
                break
            state = fill(state, picked, [choice.tokens[i][0] for i in picked])
            drafts.append(state)
        return drafts

    @abstractmethod
    def pick(self, view: DraftView, choice: Choice, open_: list[int]) -> list[int]:
        """The positions of `open_` that the next state fills."""


@register
class LeftToRight(Nested):
    """The order of an autoregressive decoder."""

    name = "left-to-right"

    def pick(self, view: DraftView, choice: Choice, open_: list[int]) -> list[int]:
        return open_[:1]


class Chain(Nested):
    """What the commit rule would do if the stale distributions were still true (arXiv 2510.00294, 2510.04147)."""

    name = "chain"

    def pick(self, view: DraftView, choice: Choice, open_: list[int]) -> list[int]:
        return [open_[n] for n in view.policy.rule.choose([choice.confidences[i][0] for i in open_])]


register(Chain, uncoupled={"coupled": False})


@register
class Random(Nested):
    """A random order: the lower bound, and a test double. The same view gives the same draft."""

    name = "random"

    def card(self) -> DrafterCard:
        return DrafterCard("bound")

    def pick(self, view: DraftView, choice: Choice, open_: list[int]) -> list[int]:
        return [random.Random(f"{view.seed}/{view.block}/{open_}").choice(open_)]
