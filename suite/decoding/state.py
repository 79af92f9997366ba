"""Block states, and the rows that a target evaluates in one pass."""

from collections.abc import Sequence
from dataclasses import dataclass

MASK = -1
"""A masked position in a state, whatever id the target's own mask token has."""

State = tuple[int, ...]
"""One block: a token id or MASK at each of its B positions."""

Visit = tuple[int, State]
"""A state that a decode reached, and the block it belongs to."""


@dataclass(frozen=True)
class Row:
    """One row of a pass: finished blocks that are not in the cache yet, then the current block.

    With finished blocks, their commit rides in the pass that evaluates `current`. An empty `current`
    only commits.
    """

    finished: tuple[State, ...]
    current: State


def masked(state: State) -> list[int]:
    """The masked positions, ascending."""
    return [i for i, token in enumerate(state) if token == MASK]


def fill(state: State, positions: Sequence[int], tokens: Sequence[int]) -> State:
    """`state` with `tokens` at `positions`."""
    entries = list(state)
    for position, token in zip(positions, tokens, strict=True):
        entries[position] = token
    return tuple(entries)


def until_end(tokens: Sequence[int], stop_ids: frozenset[int]) -> tuple[tuple[int, ...], bool]:
    """The tokens up to and including the first end token, and whether there is one.

    The one place where an answer's tokens are counted.
    """
    for n, token in enumerate(tokens):
        if token in stop_ids:
            return tuple(tokens[: n + 1]), True
    return tuple(tokens), False
