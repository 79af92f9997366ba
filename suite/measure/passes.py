"""What each verify pass of a decode meant for each position of its block."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from suite.decoding.decode import Pass
from suite.decoding.state import MASK, State, Visit
from suite.records import Step

Kind = Literal["own", "accepted", "rejected", "open", "earlier"]


@dataclass(frozen=True)
class Mark:
    """What one pass meant for one position. `token`: committed or drafted there, MASK where neither."""

    kind: Kind
    token: int = MASK


@dataclass(frozen=True)
class Line:
    """One verify pass: its number in the decode, rows, accepted depth, and a mark for each position of the block.

    `committed`: the positions that each of its steps filled, the accepted ones first, the target's own step last.
    """

    number: int
    rows: int
    depth: int
    marks: tuple[Mark, ...]
    committed: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Block:
    """A block's passes, the state it was given in (the prompt's tail may fill some of it), and what it became."""

    index: int
    given: State
    lines: list[Line]
    state: State


def blocks(passes: Sequence[Pass], visits: Sequence[Visit]) -> list[Block]:
    """A decode, block by block."""
    left = deque(visits)
    found: dict[int, Block] = {}
    for number, one in enumerate(passes, 1):
        begun = one.states[0]
        block, after = left.popleft()
        if after == begun:  # its first token was decided ahead of its first pass
            begun = (MASK,) * len(begun)
            block, after = left.popleft()
        path = [after, *(left.popleft()[1] for _ in range(one.depth))]
        before = found.get(block, Block(block, begun, [], ()))
        committed = tuple(map(_filled, [begun, *path], path))
        line = Line(number, one.rows, one.depth, tuple(_marks(one, path)), committed)
        found[block] = Block(block, before.given, [*before.lines, line], path[-1])
    return list(found.values())


def as_steps(doc_id: int, passes: Sequence[Pass], visits: Sequence[Visit]) -> list[Step]:
    """A decode as it is kept on disk."""
    lines = [(block.index, line) for block in blocks(passes, visits) for line in block.lines]
    return [
        Step(
            doc_id=doc_id,
            number=number,
            rows=one.rows,
            depth=one.depth,
            draft_s=one.draft_s,
            verify_s=one.verify_s,
            host_s=one.host_s,
            block=block,
            committed=[list(positions) for positions in line.committed],
            rejected=[i for i, mark in enumerate(line.marks) if mark.kind == "rejected"],
        )
        for number, (one, (block, line)) in enumerate(zip(passes, lines, strict=True))
    ]


def _filled(before: State, after: State) -> tuple[int, ...]:
    return tuple(i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new)


def _marks(one: Pass, path: Sequence[State]) -> Iterator[Mark]:
    """Args: `path`: the states that the pass reached, the last one by the target's own step."""
    begun, after = one.states[0], path[-1]
    accepted = path[-2] if len(path) > 1 else begun
    rejected = _rejected(one.states[1:], after)
    for i, token in enumerate(begun):
        if token != MASK:
            yield Mark("earlier")
        elif accepted[i] != MASK:
            yield Mark("accepted", accepted[i])
        elif after[i] != MASK:
            yield Mark("own", after[i])
        elif rejected and rejected[i] != MASK:
            yield Mark("rejected", rejected[i])
        else:
            yield Mark("open")


def _rejected(drafts: Sequence[State], after: State) -> State | None:
    """The first draft that fills a position which the pass left open, as far as later drafts go on from it."""
    last: State | None = None
    for state in drafts:
        if last is None:
            if any(old == MASK != new for old, new in zip(after, state, strict=True)):
                last = state
        elif all(old in (MASK, new) for old, new in zip(last, state, strict=True)):
            last = state
    return last
