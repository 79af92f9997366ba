"""The two ends of the scale: no drafts at all, and drafts that read the future."""

from collections.abc import Sequence

from drafters.base import Drafter, DrafterCard, DraftView, register
from suite.decoding.state import MASK, State, Visit, fill


@register
class NoDrafts(Drafter):
    """The baseline: one row a pass."""

    name = "none"

    def card(self) -> DrafterCard:
        return DrafterCard("bound")

    def propose(self, view: DraftView, rows: int) -> list[State]:
        return []


@register
class Perfect(Drafter):
    """The baseline's own states, true order and tokens: the fewest passes that any drafter can need."""

    name = "perfect"
    needs_future = True
    nested = True

    def card(self) -> DrafterCard:
        return DrafterCard("bound")

    def start(self, future: Sequence[Visit]) -> None:
        self._future = list(future)
        self._when = {visit: n for n, visit in enumerate(future)}

    def propose(self, view: DraftView, rows: int) -> list[State]:
        now = self._when.get((view.block, view.state))
        coming = self._future[now + 1 : now + 1 + rows] if now is not None else []
        return [state for block, state in coming if block == view.block and MASK in state]


@register
class Oracle(Perfect):
    """The true order with stale tokens: the bound of drafters that know where and read what from the target."""

    name = "oracle"

    def propose(self, view: DraftView, rows: int) -> list[State]:
        state, drafts = view.state, []
        for true in super().propose(view, rows):
            where = [i for i, (old, new) in enumerate(zip(state, true, strict=True)) if old == MASK != new]
            choice = view.choice(len(state) - state.count(MASK))
            state = fill(state, where, [choice.tokens[i][0] for i in where])
            drafts.append(state)
            if state != true:  # nothing that follows a wrong token is reached
                break
        return drafts
