"""Who is ranked where, and who is not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports import board
from reports.board import Row, shared_ranks
from reports.entry import Entry, Spread
from tests.reports.made_entries import PLAIN, bounds, made_entry

INTERVALS = st.lists(
    st.tuples(st.floats(0.1, 9), st.floats(0, 2), st.floats(0, 2)).map(
        lambda x: Spread(value=x[0] + x[1], low=x[0], high=x[0] + x[1] + x[2])
    ),
    max_size=12,
)


@given(INTERVALS)
def test_ranks_follow_the_lower_bound_and_are_shared_by_those_that_overlap_the_first(intervals: list[Spread]) -> None:
    ranks = shared_ranks(intervals)
    order = sorted(range(len(intervals)), key=lambda n: (ranks[n], -intervals[n].low, -intervals[n].high))
    lows = [intervals[n].low for n in order]
    assert lows == sorted(lows, reverse=True), "never a better rank for a lower bound"
    for rank in set(ranks):
        same = [intervals[n] for n in order if ranks[n] == rank]
        assert all(other.high >= same[0].low for other in same), "whoever shares a rank overlaps its first"
        assert rank == 1 + sum(other < rank for other in ranks), "the ranks after a shared one are left out"
        before = [intervals[n] for n in order if ranks[n] < rank]
        if before:
            last_rank = max(other for other in ranks if other < rank)
            leader = max((intervals[n] for n in order if ranks[n] == last_rank), key=lambda x: x.low)
            assert same[0].high < leader.low, "a new rank begins only below the interval of the last one's first"


@given(INTERVALS, st.randoms())
def test_ranks_do_not_depend_on_the_order(intervals: list[Spread], random: Any) -> None:
    shuffled = list(intervals)
    random.shuffle(shuffled)
    ranked = dict(zip(intervals, shared_ranks(intervals), strict=True))
    assert ranked == dict(zip(shuffled, shared_ranks(shuffled), strict=True))


def at(rows: list[Row], drafter: str, task: str = "", temperature: float = 0.0, budget: int = 9) -> Row:
    (found,) = [
        row
        for row in rows
        if (row.entry.drafter, row.task, row.temperature, row.rows) == (drafter, task, temperature, budget)
    ]
    return found


def test_the_better_drafter_is_first_and_bounds_have_no_rank() -> None:
    rows = board.rows([made_entry("slow", 1.5), made_entry("fast", 3.0), *bounds()])
    assert [(row.entry.drafter, row.rank) for row in rows if row.setting == rows[0].setting] == [
        ("fast", 1), ("slow", 2), ("oracle", None), ("random", None),
    ]  # fmt: skip
    assert at(rows, "oracle").why == ""
    assert at(rows, "oracle").of_oracle == 1.0
    assert 0.6 < at(rows, "fast").of_oracle < 0.9  # type: ignore[operator]


REFUSED: list[tuple[str, Entry, str]] = [
    ("incomplete tasks", made_entry("x", 9, tasks=("tiny-gsm",)), "incomplete: lacks tiny-math"),
    ("incomplete prompts", made_entry("x", 9, prompts=4), "incomplete: 8 of 12 prompts"),
    ("lossy", made_entry("x", 9, differ=1), "lossy: 2 of 12 answers differ from the baseline's"),
    ("degenerate", made_entry("x", 9, degenerate=2), "degenerate: 4 of 12 answers are empty or repetitive"),
    ("test data", made_entry("x", 9, kind="learned", split="test"), "made from the test split: only the train split"),
    ("future", made_entry("x", 9, needs_future=True), "reads the future"),
    ("other answers", made_entry("x", 9, trace="other"), "other prompts, weights or answers: the others are of other"),
    ("other machine", made_entry("x", 9, trace="other", device="cuda"), "measured on an unlike machine"),
]


@pytest.mark.parametrize(("entry", "why"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_may_not_be_ranked_is_not_and_says_why(entry: Entry, why: str) -> None:
    rows = board.rows([entry, made_entry("one"), made_entry("two"), *bounds()])
    refused = at(rows, "x")
    assert refused.rank is None
    assert why in refused.why
    assert {at(rows, name).rank for name in ("one", "two")} == {1}, "the others are ranked without it"


def test_a_single_task_is_ranked_where_another_one_is_missing() -> None:
    rows = board.rows([made_entry("x", 9, tasks=("tiny-gsm",)), made_entry("one")])
    assert at(rows, "x", "tiny-gsm").rank == 1
    assert at(rows, "x").rank is None


def test_speed_ups_are_ranked_within_one_machine_only() -> None:
    timed = {"device": "cpu", "speedup": Spread(1.5, 1.4, 1.6)}
    rows = board.rows([
        made_entry("one", machine="a", **timed), made_entry("two", machine="a", **timed),
        made_entry("else", machine="b", device="cpu", speedup=Spread(9.0, 8.0, 9.9)), made_entry("replayed"),
    ])  # fmt: skip
    assert (at(rows, "one").speed_rank, at(rows, "two").speed_rank) == (1, 1)
    assert at(rows, "else").speed_rank is None
    assert at(rows, "else").speed_why == "an unlike machine: b; this ranking is of a"
    assert at(rows, "else").rank == 1, "its passes are those of any machine"
    assert at(rows, "replayed").speed_why == "not timed: replayed from traces"


def test_home_and_away() -> None:
    learned = {"kind": "learned", "home": "tiny-sdar-b16", "split": "train"}
    rows = board.rows([made_entry("spot", **learned), made_entry("spot", target="tiny-llada", **learned), made_entry()])
    assert {(row.entry.settings.target, row.trained) for row in rows} == {
        ("tiny-sdar-b16", "home"), ("tiny-llada", "transferred"), ("tiny-sdar-b16", "no training"),
    }  # fmt: skip


def test_passes_and_prompts_are_counted_over_all_tasks() -> None:
    row = at(board.rows([made_entry()]), "chain")
    assert row.prompts == 2 * len(PLAIN)
    assert row.pass_reduction.low <= row.pass_reduction.value <= row.pass_reduction.high
