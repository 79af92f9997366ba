"""Formulas: coming states named by ranks in a stale distribution instead of by positions and tokens.

Spiffy's idea (arXiv 2509.18085): which ranks fill next varies little between blocks, prompts and tasks, so that a graph
of states can be chosen once, offline, and be made into states of any block.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drafters.base import Choice, DraftView
from suite.decoding.state import MASK, State, fill, masked

POSITION_RANKS, TOKEN_RANKS = 16, 4
"""A pair beyond these ranks is in no formula."""

Pair = tuple[int, int]
"""(i, j): the j-th likeliest token at the i-th most confident open position."""

Fill = tuple[Pair, ...]
"""What one step fills, ascending: one pair under the exact rule, any number under a threshold."""

Formula = tuple[Fill, ...]
"""A state as the steps that lead to it. Formulas with the same pairs, however ordered, are the same state; the order
only says with which step's noise a pair's token is drawn."""


@dataclass(frozen=True)
class Draft:
    """A formula made into a state.

    `chances`: the stale probability of each token that it adds. `order`: the open positions of the view by rank.
    """

    state: State
    depth: int
    chances: tuple[float, ...]
    order: tuple[int, ...]


def pairs(formula: Formula) -> frozenset[Pair]:
    return frozenset(pair for fill in formula for pair in fill)


def drafts(formulas: Iterable[Formula], view: DraftView, *, coupled: bool = True) -> list[Draft]:
    """The states that formulas name, in their order; each formula comes after the one it adds a step to.

    Positions are ranked by the confidence of the token that would be drawn there. Noise is fresh at each step, so
    where it is shared each step draws again, and ranks again what it finds open; without noise that changes nothing.
    Left out: what needs more open positions or tokens than there are, tokens that cannot be drawn, complete states,
    and states that an earlier formula gave.
    """
    made: dict[Formula, Draft] = {(): Draft(view.state, 0, (), tuple(masked(view.state)))}
    orders: dict[Formula, tuple[int, ...]] = {}
    for formula in formulas:
        if before := made.get(parent := formula[:-1]):
            choice = view.choice(view.committed + len(before.chances), coupled=coupled)
            if parent not in orders:
                orders[parent] = ranked(before.order, before.state, choice)
            if draft := _extended(before, formula[-1], orders[parent], choice):
                made[formula] = draft
    first = {draft.state: draft for draft in reversed(made.values())}
    return [draft for draft in made.values() if draft.depth and first[draft.state] is draft]


def named(view: DraftView, after: Sequence[State]) -> Formula:
    """The formula of the states `after` that a block went through from the view's, one step each.

    It ends before the first step that completes the block or has a pair beyond the ranks of a formula.
    """
    formula: list[Fill] = []
    order = tuple(masked(view.state))
    for before, state in zip([view.state, *after], after, strict=False):
        choice = view.choice(len(before) - before.count(MASK))
        order = ranked(order, before, choice)
        filled = [(n, choice.tokens[i], state[i]) for n, i in enumerate(order) if before[i] != state[i]]
        if MASK not in state or not all(n < POSITION_RANKS and token in tokens for n, tokens, token in filled):
            break
        formula.append(tuple((n, tokens.index(token)) for n, tokens, token in filled))
    return tuple(formula)


def ranked(order: Sequence[int], state: State, choice: Choice) -> tuple[int, ...]:
    """`order` with the positions open in `state` sorted anew among themselves, the lower one first on a tie."""
    open_ = iter(sorted((i for i in order if state[i] == MASK), key=lambda i: (-choice.confidences[i][0], i)))
    return tuple(next(open_) if state[i] == MASK else i for i in order)


def _extended(before: Draft, step: Fill, order: tuple[int, ...], choice: Choice) -> Draft | None:
    if max(i for i, _ in step) >= len(order) or max(j for _, j in step) >= len(choice.tokens[0]):
        return None
    where = [(order[i], j) for i, j in step]
    state = fill(before.state, [i for i, _ in where], [choice.tokens[i][j] for i, j in where])
    if MASK not in state or not all(choice.chances[i][j] > 0 for i, j in where):
        return None
    chances = before.chances + tuple(choice.confidences[i][j] for i, j in where)
    return Draft(state, before.depth + 1, chances, order)
