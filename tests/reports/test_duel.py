"""One drafter against the others."""

import pandas as pd
import pytest

from reports.duel import duels


def frame(passes: dict[str, list[int]], rows: int = 5) -> pd.DataFrame:
    return pd.DataFrame(
        {"drafter": drafter, "rows": rows, "task": "ab"[n % 2], "doc_id": n // 2, "passes": count}
        for drafter, counts in passes.items()
        for n, count in enumerate(counts)
    )


def test_a_rival_that_needs_more_passes_is_above_one() -> None:
    made = frame({"spot": [4, 4, 4, 4], "chain": [8, 4, 8, 4], "spot-uncoupled": [9] * 4, "oracle": [1] * 4})
    (one,) = duels(made, "spot")
    assert (one.rival, one.rows, one.behind) == ("chain", 5, ())
    assert one.pooled.value == pytest.approx(2**0.5)
    assert (one.worst_task, one.worst.value) == ("b", pytest.approx(1.0))


def test_a_task_in_which_it_is_behind_is_named() -> None:
    made = frame({"spot": [4, 4, 4, 4], "spiffy": [2, 8, 2, 8]})
    (one,) = duels(made, "spot")
    assert one.behind == ("a",)
    assert one.pooled.value == pytest.approx(1.0)


def test_a_rivals_uncoupled_twin_is_a_rival() -> None:
    """Of a baseline the better twin is the one to beat."""
    made = frame({"spot": [4] * 4, "chain": [8] * 4, "chain-uncoupled": [6] * 4})
    assert [(one.rival, one.pooled.value) for one in duels(made, "spot")] == [
        ("chain", pytest.approx(2.0)),
        ("chain-uncoupled", pytest.approx(1.5)),
    ]


def test_small_budgets_and_absent_champions_are_left_out() -> None:
    assert list(duels(frame({"spot": [4] * 4, "chain": [4] * 4}, rows=2), "spot")) == []
    assert list(duels(frame({"best-first": [4] * 4, "chain": [4] * 4}), "spot")) == []
