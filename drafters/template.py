"""A drafter of your own. It works as it is; the guesses are yours to improve."""

from drafters import Drafter, DraftView
from suite.decoding.state import State, fill, masked


class MyDrafter(Drafter):
    """The surest position first, then the next one, in one chain of states."""

    def propose(self, view: DraftView, rows: int) -> list[State]:
        state = view.state
        drafts: list[State] = []
        while len(drafts) < rows and len(open_ := masked(state)) > 1:  # a full block has no step left to verify
            # What the last pass (one step old) and the noise of the coming step say, best token first.
            choice = view.choice(committed=len(state) - len(open_))
            surest = max(open_, key=lambda i: choice.confidences[i][0])
            state = fill(state, [surest], [choice.tokens[surest][0]])
            drafts.append(state)  # a wrong guess costs a row of the pass, never an output
        return drafts
