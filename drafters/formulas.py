"""Formulas: coming states named by ranks in a stale distribution instead of by positions and tokens.

Spiffy's idea (arXiv 2509.18085): which ranks fill next varies little between blocks, prompts and tasks, so that a graph
of states can be chosen once, offline, and be made into states of any block.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drafters.base import DraftView
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
    """A formula made into a state. `chances`: the stale probability of each token that it adds."""

    state: State
    depth: int
    chances: tuple[float, ...]


def pairs(formula: Formula) -> frozenset[Pair]:
    return frozenset(pair for fill in formula for pair in fill)


def drafts(formulas: Iterable[Formula], view: DraftView, *, coupled: bool = True) -> list[Draft]:
    """The states that formulas name, in their order; each formula comes after the one it adds a step to.

    Left out: what needs more open positions or tokens than there are, tokens that cannot be drawn, complete states,
    and states that an earlier formula gave.
    """
    by_rank = ranked(view, coupled=coupled)
    made: dict[Formula, Draft] = {(): Draft(view.state, 0, ())}
    for formula in formulas:
        before = made.get(formula[:-1])
        if before and (draft := _extended(before, formula[-1], by_rank, view, coupled)):
            made[formula] = draft
    found = {draft.state: draft for draft in reversed(made.values())}
    return [draft for draft in made.values() if draft.depth and found[draft.state] is draft]


def named(view: DraftView, after: Sequence[State]) -> Formula:
    """The formula of the states `after` that a block went through from the view's, one step each.

    It ends before the first step that completes the block or has a pair beyond the ranks of a formula.
    """
    rank = {position: i for i, position in enumerate(ranked(view)[:POSITION_RANKS])}
    formula: list[Fill] = []
    for before, state in zip([view.state, *after], after, strict=False):
        tokens = view.choice(len(before) - before.count(MASK)).tokens
        filled = [i for i in masked(before) if state[i] != MASK]
        if MASK not in state or not all(i in rank and state[i] in tokens[i][:TOKEN_RANKS] for i in filled):
            break
        formula.append(tuple(sorted((rank[i], tokens[i].index(state[i])) for i in filled)))
    return tuple(formula)


def ranked(view: DraftView, *, coupled: bool = True) -> list[int]:
    """The open positions by the confidence of what the coming step would draw there, the lower one first on a tie."""
    confidences = view.choice(view.committed, coupled=coupled).confidences
    return sorted(masked(view.state), key=lambda i: (-confidences[i][0], i))


def _extended(before: Draft, step: Fill, by_rank: Sequence[int], view: DraftView, coupled: bool) -> Draft | None:
    choice = view.choice(view.committed + len(before.chances), coupled=coupled)
    if max(step)[0] >= len(by_rank) or max(j for _, j in step) >= len(choice.tokens[0]):
        return None
    where = [(by_rank[i], j) for i, j in step]
    state = fill(before.state, [i for i, _ in where], [choice.tokens[i][j] for i, j in where])
    if MASK not in state or not all(choice.chances[i][j] > 0 for i, j in where):
        return None
    return Draft(state, before.depth + 1, before.chances + tuple(choice.confidences[i][j] for i, j in where))
