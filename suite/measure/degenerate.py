"""Answers that are no answers: empty, or the same few tokens without end."""

from collections.abc import Sequence

REPEATS = 4
LENGTH = 12


def is_empty(text: str) -> bool:
    return not text.strip()


def is_repetitive(tokens: Sequence[int], finish: str) -> bool:
    """Whether an answer without an end token ends in at least REPEATS copies, LENGTH tokens, of one pattern."""
    if finish == "end":
        return False
    for period in range(1, len(tokens) // REPEATS + 1):
        span = max(REPEATS * period, LENGTH)
        tail = tokens[-span:]
        if len(tail) == span and all(tail[n] == tail[n + period] for n in range(span - period)):
            return True
    return False
