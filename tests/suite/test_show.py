"""`spotbench trace`: what a pass did to each position can be read off, in any terminal."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

import drafters
from suite import cli, grid, show
from suite.decoding.decode import Decoded, Pass, decode
from suite.decoding.policy import Policy
from suite.decoding.rules import Exact, Fixed, Threshold
from suite.decoding.state import MASK, State
from suite.measure.passes import Block, Mark, as_steps, blocks
from tests.suite.tiny_grid import TinyRun, finish_grid, spotbench, store_of
from tests.toy import SIZE, ToyTarget

M = MASK
WORDS = {3: "the", 4: "cat", 5: "sat", 6: "[/red]", 7: "a very long one"}


def lines(block: Block, width: int) -> list[str]:
    return [line.plain for line in show.grid(block, WORDS.__getitem__, width)]


def blocks_of(done: Decoded) -> list[Block]:
    return blocks(done.passes, done.visits)


def one_pass(*states: State, depth: int = 0) -> Pass:
    return Pass(states, depth, 0.0, 0.0, 0.0)


def made() -> Decoded:
    """Block 2 begins with one token of the prompt. Its first pass commits position 1. The second one finds its draft
    of position 2 right, then commits 3; that the draft went on with 4 is not accepted. The third one ends it."""
    begun = (3, M, M, M, M)
    first = (3, 4, M, M, M)
    right, wrong = (3, 4, 5, M, M), (3, 4, 5, M, 4)
    second = (3, 4, 5, 6, M)
    last = (3, 4, 5, 6, 7)
    return Decoded(
        visits=[(2, first), (2, right), (2, second), (2, last)],
        passes=[one_pass(begun), one_pass(first, right, wrong, depth=1), one_pass(second)],
    )


def test_a_decode_is_a_row_for_each_pass_and_a_column_for_each_position() -> None:
    (block,) = blocks_of(made())
    assert lines(block, 80) == [
        "block 2: 3 passes, the prompt fills it up to position 0",
        "pass rows accepted  1        2        3        4",
        "   1    1        0  [cat]    .        .        .",
        "   2    3        1           +sat     [[/red]] ~cat",
        "   3    1        0                             [a ver…]",
        "text                cat      sat      [/red]   a ver…",
    ]


def test_what_is_kept_of_a_pass_is_its_steps_in_order_and_what_was_rejected() -> None:
    kept = as_steps(7, made().passes, made().visits)
    assert [(step.doc_id, step.number, step.block, step.rows, step.depth) for step in kept] == [
        (7, 0, 2, 1, 0),
        (7, 1, 2, 3, 1),
        (7, 2, 2, 1, 0),
    ]
    assert [(step.committed, step.rejected) for step in kept] == [([[1]], []), ([[2], [3]], [4]), ([[4]], [])]


def test_positions_that_do_not_fit_side_by_side_are_shown_in_bands() -> None:
    (block,) = blocks_of(made())
    assert lines(block, 40) == [
        "block 2: 3 passes, the prompt fills it up to position 0",
        "pass rows accepted  1        2",
        "   1    1        0  [cat]    .",
        "   2    3        1           +sat",
        "   3    1        0",
        "text                cat      sat",
        "",
        "pass rows accepted  3        4",
        "   1    1        0  .        .",
        "   2    3        1  [[/red]] ~cat",
        "   3    1        0           [a ver…]",
        "text                [/red]   a ver…",
    ]


def test_without_drafts_there_is_nothing_to_say_of_rows() -> None:
    done = Decoded(visits=[(0, (M, 4)), (0, (3, 4))], passes=[one_pass((M, M)), one_pass((M, 4))])
    (block,) = blocks_of(done)
    assert lines(block, 80) == [
        "block 0: 2 passes",
        "pass  0     1",
        "   1  .     [cat]",
        "   2  [the]",
        "text  the   cat",
    ]


def test_a_token_that_was_decided_ahead_belongs_to_no_pass() -> None:
    done = Decoded(
        visits=[(0, (3, M, M)), (0, (3, M, 5)), (0, (3, 4, 5))], passes=[one_pass((3, M, M)), one_pass((3, M, 5))]
    )
    (block,) = blocks_of(done)
    assert block.given == (M, M, M)
    assert [line.marks for line in block.lines] == [
        (Mark("earlier"), Mark("open"), Mark("own", 5)),
        (Mark("earlier"), Mark("own", 4), Mark("earlier")),
    ]


@pytest.mark.parametrize("name", drafters.names())
@settings(max_examples=40)
@given(
    salt=st.integers(0, 50),
    smooth=st.sampled_from([0.0, 0.8]),
    rule=st.sampled_from([Exact(), Threshold(0.5), Fixed(2)]),
    prompt=st.lists(st.integers(1, 4), max_size=6),
    width=st.sampled_from([20, 40, 80]),
)
def test_every_position_is_committed_once_and_no_line_is_too_wide(
    name: str, salt: int, smooth: float, rule: Exact, prompt: list[int], width: int
) -> None:
    target, policy = ToyTarget(salt=salt, smooth=smooth), Policy(SIZE, 9, rule)
    future = decode(target, prompt, policy, drafters.make("none")).visits
    done = decode(target, prompt, policy, drafters.make(name), 5, future=future)
    shown = blocks_of(done)
    assert sum(len(block.lines) for block in shown) == len(done.passes)
    for block in shown:
        for i, given_ in enumerate(block.given):
            column = [line.marks[i] for line in block.lines]
            committed = [mark.token for mark in column if mark.kind in ("own", "accepted")]
            assert committed == ([block.state[i]] if given_ == MASK else [])
        for line in block.lines:
            kinds = [mark.kind for mark in line.marks]
            assert "own" in kinds
            assert ("accepted" in kinds) == (line.depth > 0)
            if line.rows == 1:
                assert "rejected" not in kinds
        made = list(show.grid(block, str, width))
        assert all(cell_len(line.plain) <= max(width, 26) for line in made[1:])


class Spelling(ToyTarget):
    def decode(self, ids: object) -> str:
        return {1: " a", 2: "  ", 3: "\n\x1b[31m", 4: ""}[ids[0]]  # type: ignore[index]


def test_tokens_are_spelled_so_that_they_can_be_seen() -> None:
    assert [show.spelled(Spelling(), token) for token in (1, 2, 3, 4)] == ["a", "␣␣", "⏎�[31m", "<4>"]
    assert show.spelled(ToyTarget(), 0) == "<end>"


@pytest.mark.parametrize("drafter", ["none", "chain", "oracle"])
@pytest.mark.parametrize("columns", [80, 120])
def test_a_finished_cell_is_decoded_again(
    drafter: str, columns: int, tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli.show, "width", columns)
    cell = next(cell for cell in tiny_run.cells if cell.drafter == drafter)
    ran = spotbench("trace", cell.id[:-2], "1", "--results", tiny_run.results)
    assert ran.code == 0, ran.err
    (sample,) = [sample for sample in tiny_run.store.read(cell).samples if sample.doc_id == 1]
    said = ran.out.splitlines()
    assert said[0] == f"{cell.id}, prompt 1"
    assert said[2].startswith(f"{len(sample.tokens)} tokens, passes: {sample.verify_passes} verify")
    assert said[3] == "the answer is the stored one"
    assert max(map(len, said)) <= columns
    assert sum(int(line.split()[2].removesuffix(",")) for line in said if line.startswith("block ")) == len(
        sample.depths
    )
    assert ("pass rows accepted" in ran.out) == (drafter != "none")
    assert spotbench("trace", cell.id, "1", "--results", tiny_run.results, "--grid", tiny_run.file).out == ran.out


def test_what_is_not_there_is_one_line(tmp_path: Path, write_grid: Callable[..., Path]) -> None:
    file, results = write_grid(), tmp_path / "results"
    store, cells = store_of(results), grid.read(str(file)).cells()
    assert_one_line(f"no finished cell 'tiny' under {results}; there is none", "tiny", "0", "--results", results)
    finish_grid(store, cells)
    assert_one_line(f"'tiny' begins 3 cells: {min(cell.id for cell in cells)}", "tiny", "0", "--results", results)
    assert_one_line(f"there are {min(cell.id for cell in cells)}", "[/red]", "0", "--results", results)
    for prompt in ("7", "x", "[/red]"):
        says = f"{cells[0].id} has no prompt {prompt!r}; it has 0, 1"
        assert_one_line(says, cells[0].id, prompt, "--results", results)
    other = write_grid(name='"other"')
    assert_one_line("no finished cell", cells[0].id, "0", "--results", results, "--grid", other)


def test_a_cell_that_lies_in_two_grids_is_one_cell(tmp_path: Path, write_grid: Callable[..., Path]) -> None:
    results = tmp_path / "results"
    store, cells = store_of(results), grid.read(str(write_grid())).cells()
    finish_grid(store, cells)
    shutil.copytree(store.root, store.root.with_name("twin"))
    assert show.find(results, cells[0].id[:-1])[1] == cells[0]


def assert_one_line(wanted: str, *arguments: str | Path) -> None:
    ran = spotbench("trace", *arguments)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), ran.err
    assert wanted in ran.err
