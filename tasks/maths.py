r"""How the answers of MATH are compared: as strings first, then as mathematics by math-verify.

Differences to lm-eval's tasks: only what is in the last `\boxed{}` counts, whatever stands around it, and a `%`, a unit
in `\text{}` or plain words are no reason to call two equal strings different.
"""

import logging
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

_DROPPED = re.compile(r"\\(?:left|right|displaystyle|!|,|;|:|quad| )|\\?[$%]|\^\{?\\circ\}?|\s|\{,\}|~")
_WORDS = re.compile(r"\\(?:text|mathrm|textbf|mbox)\{([^{}]*)\}")
_SHORT = re.compile(r"\\([dt])frac")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
SECONDS = 5
"""For each comparison, before it counts as a difference."""


def score_math500(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """`exact_match`: the strings are equal. `math_verify`: they are, or math-verify finds them equal."""
    answer, gold = boxed(results[0]), str(doc["answer"])
    same = answer is not None and normal(answer) == normal(gold)
    alike = same or (answer is not None and equal(gold, answer))
    return {"exact_match": float(same), "math_verify": float(alike)}


def boxed(text: str) -> str | None:
    r"""What is in the last `\boxed{}` or `\fbox{}`, braces balanced; None without one, or where it is not closed."""
    opened = max(text.rfind("\\boxed{"), text.rfind("\\fbox{"))
    if opened < 0:
        return None
    start = text.index("{", opened) + 1
    depth = 1
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0) if text[at - 1] != "\\" else 0
        if not depth:
            return text[start:at]
    return None


def normal(answer: str) -> str:
    r"""An answer without what is only typesetting: `\dfrac`, `\left`, spaces, `$`, `%`, degrees, thousands' commas."""
    words = _WORDS.sub(lambda match: match[1], _SHORT.sub(r"\\frac", answer.strip()))
    bare = _DROPPED.sub("", words).rstrip(".")
    alone = re.sub(r"^[a-zA-Z]=", "", bare)
    return _THOUSANDS.sub("", alone) if "(" not in alone and "{" not in alone and "[" not in alone else alone


def equal(gold: str, answer: str) -> bool:
    """Whether math-verify finds the two the same; it is asked in this order, for it is not symmetric.

    What it cannot parse, or cannot decide in time, is different.
    Raises RuntimeError off the main thread, where its timer cannot work and every answer would be called wrong.
    """
    from math_verify import parse, verify

    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("math-verify compares in the main thread only")
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # that an answer cannot be read is no news
    parsed = [parse(f"\\boxed{{{one}}}", parsing_timeout=SECONDS) for one in (gold, answer)]
    return bool(verify(*parsed, timeout_seconds=SECONDS))
