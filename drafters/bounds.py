"""The two ends of the scale: no drafts at all, and drafts read from the future."""

from collections.abc import Sequence

from drafters.base import Drafter, DraftView, register
from suite.decoding.state import MASK, State, Visit


@register
class NoDrafts(Drafter):
    """The baseline: one row a pass."""

    name = "none"

    def propose(self, view: DraftView, rows: int) -> list[State]:
        return []


@register
class Oracle(Drafter):
    """Proposes the states the baseline went through: the fewest passes that any drafter can need."""

    name = "oracle"
    needs_future = True

    def start(self, future: Sequence[Visit]) -> None:
        self._future = list(future)
        self._when = {visit: n for n, visit in enumerate(future)}

    def propose(self, view: DraftView, rows: int) -> list[State]:
        now = self._when.get((view.block, view.state))
        coming = self._future[now + 1 : now + 1 + rows] if now is not None else []
        return [state for block, state in coming if block == view.block and MASK in state]
