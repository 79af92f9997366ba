"""From the tokens of a decode to the text that is scored, in this order: tokens, thinking, stop strings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from suite.decoding.state import until_end
from suite.targets.base import Target

Finish = Literal["end", "stop", "length", "error"]
"""How an answer ended: an end token, a stop string, no more room, or not at all, for it could not be decoded."""

THINKING = ("<think>", "</think>")


@dataclass(frozen=True)
class Answer:
    text: str
    finish: Finish


def read(target: Target, prompt: str, tokens: Sequence[int], until: Sequence[str]) -> Answer:
    """What was answered to `prompt`; `until` are the stop strings.

    Nothing counts from the first end token on, and no special token is text. Leading white space stays, for code begins
    with it. A stop string shortens the answer, not the decode, which knows only of end tokens.
    """
    spec = target.spec
    said, ended = until_end(tokens, spec.stop_ids)
    silent = {*spec.stop_ids, *spec.excluded_ids, spec.mask_id, spec.pad_id}
    text = without_thinking(prompt, target.decode([token for token in said if token not in silent]))
    short = cut(text, until)
    return Answer(short, "stop" if short != text else "end" if ended else "length")


def without_thinking(prompt: str, text: str) -> str:
    """What follows the thinking, if there is any: one that had no room to end leaves no answer."""
    opening, closing = THINKING
    if closing in text:
        return text.rpartition(closing)[2].lstrip("\n")
    return "" if text.lstrip().startswith(opening) or prompt.rstrip().endswith(opening) else text


def cut(text: str, until: Sequence[str]) -> str:
    """`text` up to the earliest stop string."""
    return text[: min((at for stop in until if stop and (at := text.find(stop)) >= 0), default=len(text))]
