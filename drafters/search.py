"""Best-first search over block states: the most likely ones that a drafter can name."""

import heapq
from collections.abc import Callable, Sequence

from suite.decoding.state import State

Children = Callable[[Sequence[State]], list[list[tuple[State, float]]]]
"""For each of some states: the states that one step makes of it, with the chance of that step."""


def best_first(root: State, rows: int, children: Children, together: int = 1) -> list[State]:
    """At most `rows` states that can follow `root`, the most likely first.

    A state's likelihood is that the decoder comes through it by way of states named before it: paths that meet in one
    state share its row, and their likelihoods add up. `children` is asked for up to `together` states at once; what
    comes out does not depend on it.
    """
    likelihood = {root: 1.0}
    heap = [(-1.0, root)]
    named: dict[State, None] = {}
    known: dict[State, list[tuple[State, float]]] = {}
    while heap:
        negative, state = heapq.heappop(heap)
        if state in named or -negative < likelihood[state]:  # done, or pushed again with more
            continue
        named[state] = None
        if len(named) > rows:
            break
        if state not in known:
            waiting = [s for chance, s in heapq.nsmallest(2 * together, heap) if s not in known and s not in named]
            asked = [state, *dict.fromkeys(waiting)][:together]  # whatever `rows` is: fewer are the first of more
            known.update(zip(asked, children(asked), strict=True))
        for child, chance in known[state]:
            if child not in named:
                likelihood[child] = likelihood.get(child, 0.0) + likelihood[state] * chance
                heapq.heappush(heap, (-likelihood[child], child))
    return [state for state in named if state != root]
