"""Answers that measure nothing are told from answers that do."""

import pytest

from suite.measure.degenerate import LENGTH, REPEATS, is_empty, is_repetitive


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u00a0"])
def test_blank_text_is_empty(text: str) -> None:
    assert is_empty(text)


@pytest.mark.parametrize("text", ["0", " a ", "."])
def test_text_is_not_empty(text: str) -> None:
    assert not is_empty(text)


@pytest.mark.parametrize(
    ("what", "tokens"),
    [
        ("one token", [7] * LENGTH),
        ("one token after an answer", [1, 2, 3, 4, 5, *[7] * LENGTH]),
        ("a pair", [1, 2] * 6),
        ("a pair after an answer", [9, 8, 5, *[1, 2] * 6]),
        ("a pattern longer than the least length", list(range(10)) * REPEATS),
        ("a pattern that is cut in its middle", [*([1, 2, 3, 4, 5] * REPEATS), 1, 2]),
    ],
)
def test_an_endless_pattern_is_repetitive(what: str, tokens: list[int]) -> None:
    assert is_repetitive(tokens, "length"), what


@pytest.mark.parametrize(
    ("what", "tokens"),
    [
        ("nothing", []),
        ("all different", list(range(60))),
        ("too short", [7] * (LENGTH - 1)),
        ("too few copies", list(range(10)) * (REPEATS - 1)),
        ("a pattern in the middle", [7] * 30 + [1, 2, 3]),
        ("a broken pattern", [1, 2, 3, 4] * 3 + [1, 2, 9, 4] + [1, 2, 3, 4]),
    ],
)
def test_an_answer_is_not_repetitive(what: str, tokens: list[int]) -> None:
    assert not is_repetitive(tokens, "length"), what


def test_an_answer_that_ends_is_not_repetitive() -> None:
    assert not is_repetitive([7] * 50, "end")
    assert is_repetitive([7] * 50, "length")
