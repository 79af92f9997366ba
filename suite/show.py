"""`spotbench trace`: one decode, pass by pass, as a grid of block positions."""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.cells import cell_len, set_cell_size
from rich.text import Text

import drafters
from suite import runner, store
from suite.cells import Cell
from suite.decoding.decode import Decoded, decode
from suite.decoding.noise import request_seed
from suite.decoding.state import MASK
from suite.errors import UserError
from suite.measure.passes import Block, Kind, Mark, blocks
from suite.store import Store
from suite.targets.base import Target

STYLES: dict[Kind, str] = {"own": "bold", "accepted": "green", "rejected": "red", "open": "dim", "earlier": ""}
LONGEST = 6
"""Columns of a token that are shown."""
GAP = 1
"""Columns between two positions; one more sets the labels apart."""


def find(results: Path, cell: str, grid: str = "*") -> tuple[Store, Cell]:
    """The finished cell of this id, or of an id that begins so and no other does. Raises UserError."""
    places = {name: one for one in store.stores(results, grid) for name in one.finished()}
    begun = [cell] if cell in places else sorted(name for name in places if name.startswith(cell))
    if not begun:
        there = f"there are {_some(sorted(places))}" if places else "there is none"
        raise UserError(f"no finished cell {cell!r} under {results}; {there}")
    if len(begun) > 1:
        raise UserError(f"{cell!r} begins {len(begun)} cells: {_some(begun)}; write more of it")
    return places[begun[0]], places[begun[0]].cell(begun[0])


def trace(place: Store, cell: Cell, source: str, prompt: str, width: int) -> Iterator[Text]:
    """The lines, `width` wide, that show how a finished cell decodes one of its prompts, decoded once more.

    `source`: where the target's checkpoint is, if the grid says so. Raises UserError when the cell has no such prompt.
    """
    samples = {str(sample.doc_id): sample for sample in place.read(cell).samples}
    if prompt not in samples:
        raise UserError(f"{cell.id} has no prompt {prompt!r}; it has {_some(list(samples))}")
    if fault := samples[prompt].error:
        raise UserError(f"{cell.id}: prompt {prompt} was not decoded: {fault}")
    target, task, requests = runner.prepare(cell, source)
    request = next(request for request in requests if str(request.doc_id) == prompt)
    policy = runner.reference_policy(cell, target, task)
    ids, seed = target.encode(request.prompt), request_seed(cell.seed, request.prompt)
    drafter = drafters.make(cell.drafter)
    drafter.attach(cell.target, policy)
    future = decode(target, ids, policy, drafters.make("none"), seed=seed).visits if drafter.needs_future else ()
    done = decode(target, ids, policy, drafter, cell.rows, seed, future)
    same = list(done.tokens) == samples[prompt].tokens
    yield Text(f"{cell.id}, prompt {prompt}", "bold")
    yield Text(_plain(target.decode(done.tokens)))
    yield Text(_counts(done))
    yield Text("the answer is the stored one" if same else "this is NOT the stored answer", "" if same else "red")
    yield from legend()
    for block in blocks(done.passes, done.visits):
        yield Text()
        yield from grid(block, lambda token: spelled(target, token), width)


def legend() -> list[Text]:
    """What the marks mean."""
    told: list[tuple[Kind, str, str]] = [
        ("own", "[tok]", "committed by the target's own step, the last one of each pass"),
        ("accepted", "+tok", "drafted, accepted and committed: steps that needed no pass of their own"),
        ("rejected", "~tok", "drafted, rejected (one path of them; rows counts them all)"),
        ("open", ".", "still masked"),
        ("earlier", "", "(blank) committed earlier"),
    ]
    return [Text(f"  {mark:6}", STYLES[kind]).append(f" {meaning}", "default not bold") for kind, mark, meaning in told]


def grid(block: Block, spell: Callable[[int], str], width: int) -> Iterator[Text]:
    """A row for each pass, a column for each position; in several bands where they do not fit side by side.

    The positions that the prompt's tail fills are left out.
    """
    shown = [i for i, token in enumerate(block.given) if token == MASK]
    count = len(block.lines)
    title = Text(f"block {block.index}: {count} pass{'es' if count > 1 else ''}", "bold")
    yield title.append(f", the prompt fills it up to position {shown[0] - 1}" if shown[0] else "", "default not bold")
    drafted = any(line.rows > 1 for line in block.lines)
    head, *labels = ["pass", *(f"{line.number:>4}" for line in block.lines)]
    if drafted:
        head += " rows accepted"
        labels = [f"{label} {line.rows:>4} {line.depth:>8}" for label, line in zip(labels, block.lines, strict=True)]
    cells = [[_written(mark, spell) for mark in line.marks] for line in block.lines]
    final = [_short(spell(token)) for token in block.state]
    column = max(cell_len(texts[i]) for texts in [final, *cells] for i in shown)
    bands = math.ceil(len(shown) / max(1, (width - len(head) - GAP) // (column + GAP)))
    size = math.ceil(len(shown) / bands)
    for band in (shown[start : start + size] for start in range(0, len(shown), size)):
        if band[0] > shown[0]:
            yield Text()
        yield _row(head, [(str(i), "dim") for i in band], column, "dim")
        for label, line, texts in zip(labels, block.lines, cells, strict=True):
            yield _row(label, [(texts[i], STYLES[line.marks[i].kind]) for i in band], column)
        yield _row("text".ljust(len(head)), [(final[i], "dim") for i in band], column, "dim")


def spelled(target: Target, token: int) -> str:
    """A token as text: the ends of answers by name, other special ones by number, spaces in front left out."""
    text = target.decode([token])
    if token in target.spec.stop_ids:
        return "<end>"
    return _plain(text.strip(" ") or text.replace(" ", "␣")) or f"<{token}>"


def _written(mark: Mark, spell: Callable[[int], str]) -> str:
    text = _short(spell(mark.token)) if mark.token != MASK else ""
    return {"own": f"[{text}]", "accepted": f"+{text}", "rejected": f"~{text}", "open": ".", "earlier": ""}[mark.kind]


def _row(label: str, cells: Sequence[tuple[str, str]], column: int, style: str = "") -> Text:
    row = Text(label + " " * GAP, style)
    for text, its_style in cells:
        row.append(" " * GAP).append(set_cell_size(text, column), its_style)
    row.rstrip()
    return row


def _short(text: str) -> str:
    return text if cell_len(text) <= LONGEST else set_cell_size(text, LONGEST - 1) + "…"


def _plain(text: str) -> str:
    """`text` in one line that a terminal shows as it is."""
    return "".join(c if c.isprintable() else {"\n": "⏎", "\t": "⇥"}.get(c, "�") for c in text)


def _counts(done: Decoded) -> str:
    tokens, passes = len(done.tokens), len(done.passes)
    beside = {"prefill": done.prefill_passes, "commit": done.commit_passes}
    others = "".join(f", {count} {name}" for name, count in beside.items() if count)
    return f"{tokens} tokens, passes: {passes} verify{others}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
