"""How answers are read and scored: the `process_results` of the tasks, and what they are made of.

lm-eval calls each `score_*` with a document and the filtered answers (one here) and takes back metrics in [0, 1].
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from tasks import maths, sandbox

Metrics = dict[str, float]

SECONDS = 10.0
"""For all tests of one answer to HumanEval or MBPP; a busy machine is no wrong answer."""

_NUMBER = re.compile(r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|(?<!\.)\.[0-9]+")
_FENCE = re.compile(r"```[^\n]*\n(.*?)(?:\n```|\Z)", re.DOTALL)
_BESIDE = re.compile(r"\\(?:text|mathrm|textbf)\{[^{}]*\}|\\[,!;: ]|\\(?=[$%])")
_BULLET = re.compile(r"[-*•] +(?=\S)")


def score_gsm(doc: Mapping[str, Any], results: Sequence[str]) -> Metrics:
    """`exact_match` wants the number after "####"; `flexible_match` takes the last one where there is no such mark."""
    return _matches(marked_number(results[0]), results[0], doc)


def score_gsm_boxed(doc: Mapping[str, Any], results: Sequence[str]) -> Metrics:
    r"""`exact_match` wants the number in the last `\boxed{}`; `flexible_match` takes the last one without a box."""
    return _matches(boxed_number(results[0]), results[0], doc)


def _matches(marked: Decimal | None, text: str, doc: Mapping[str, Any]) -> Metrics:
    gold = Decimal(doc["result"]) if "result" in doc else marked_number(doc["answer"])
    if gold is None:
        return {"exact_match": 0.0, "flexible_match": 0.0}  # or no answer at all would be the right one
    return {"exact_match": float(marked == gold), "flexible_match": float(final_number(text) == gold)}


def boxed_gsm(doc: Mapping[str, Any]) -> str:
    r"""A worked answer of GSM8K with its result in a `\boxed{}`."""
    return str(doc["answer"]).replace("#### ", "The answer is \\boxed{") + "}"


def score_math(doc: Mapping[str, Any], results: Sequence[str]) -> Metrics:
    return {"exact_match": float(boxed_number(results[0]) == Decimal(doc["result"]))}


def score_code(doc: Mapping[str, Any], results: Sequence[str]) -> Metrics:
    """Every test passes on the function as the model wrote it."""
    program = "\n".join([code_of(results[0]), "", *doc["tests"]])
    return {"pass@1": float(sandbox.run(program).passed)}


def score_humaneval(doc: Mapping[str, Any], results: Sequence[str]) -> Metrics:
    """The prompt stands before the answer, so that both a whole function and the body alone are taken."""
    program = f"{doc['prompt']}{code_of(results[0])}\n{doc['test']}\ncheck({doc['entry_point']})"
    return {"pass@1": float(sandbox.run(program, seconds=SECONDS).passed)}


def score_mbpp(doc: Mapping[str, Any], results: Sequence[str]) -> Metrics:
    """`test_setup_code` may use the answer's classes, so it comes after it."""
    imports, setup = doc.get("test_imports") or [], doc.get("test_setup_code") or ""
    program = "\n".join([*imports, code_of(results[0]), setup, *doc["test_list"]])
    return {"pass@1": float(sandbox.run(program, seconds=SECONDS).passed)}


def unscored(doc: Mapping[str, Any], results: Sequence[str]) -> Metrics:
    """For tasks of which only the speed counts."""
    return {}


def score_ifeval(doc: Mapping[str, Any], results: Sequence[str]) -> Metrics:
    """As IFEval's strict prompt level: all of the prompt's constraints at once, on the text as it is."""
    return {"prompt_level_strict_acc": float(follows(results[0], doc["checks"]))}


# --- numbers ------------------------------------------------------------------------------------


def numbers(text: str) -> list[Decimal]:
    """All numbers in `text`, in order; `$18`, `18.`, `1,800` and `18.00` are read as a person would."""
    return [_signed(text[: match.start()], match.group()) for match in _NUMBER.finditer(text)]


def marked_number(text: str) -> Decimal | None:
    """The first number on the line of the first "####", as GSM8K writes its answers."""
    _, _, rest = text.partition("####")
    found = numbers(rest.lstrip().partition("\n")[0])
    return found[0] if found else None


def final_number(text: str) -> Decimal | None:
    """The marked number; without a mark the last one in the last box, and without a box the last of the text."""
    if "####" in text:
        return marked_number(text)
    box = maths.boxed(text)
    found = numbers(_bare(text if box is None else box))
    return found[-1] if found else None


def boxed_number(text: str) -> Decimal | None:
    r"""The number that alone fills the last `\boxed{}`; `x = 18`, `\$18` and `18\text{ eggs}` in it count as 18."""
    content = re.sub(r"^[a-zA-Z] *=", "", _bare(maths.boxed(text) or "").strip()).strip().rstrip(".")
    left_over = re.sub(r"[-−$% ]", "", _NUMBER.sub("", content, count=1))
    found = numbers(content)
    return found[0] if len(found) == 1 and not left_over else None


def _bare(text: str) -> str:
    """LaTeX without what may stand beside a number: units, thin spaces, an escaped `$` or `%`, `{,}` for a comma."""
    return _BESIDE.sub("", text).replace("{,}", ",")


def _signed(before: str, digits: str) -> Decimal:
    """A minus is a sign unless it stands between two operands, as in `20 - 18`."""
    value = Decimal(digits.replace(",", ""))
    before = before.rstrip(" $")
    operand = before[:-1].rstrip()[-1:]
    return -value if before.endswith(("-", "−")) and not (operand.isdigit() or operand == ")") else value


# --- code ---------------------------------------------------------------------------------------


def code_of(text: str) -> str:
    """The first fenced block, or the whole text where there is none; indentation is kept."""
    fenced = _FENCE.search(text)
    return fenced.group(1) if fenced else text


# --- constraints --------------------------------------------------------------------------------


def follows(text: str, checks: Mapping[str, Any]) -> bool:
    """Whether `text` keeps all of `checks`; one that the prompt does not ask for is missing or None.

    Items are counted once each, so that a text that repeats itself does not pass for a list.
    """
    wanted = {name: value for name, value in checks.items() if value is not None}
    listed, end = text.strip(), wanted.get("end")
    if end is not None:
        last = re.search(rf"\b{re.escape(end)}[.!]?$", listed, re.IGNORECASE)
        if last is None:
            return False
        listed = listed[: last.start()].rstrip()
    items = _items(listed, wanted["separator"])
    return (
        len({item.lower() for item in items}) == len(items) == wanted["count"]
        and ("start" not in wanted or items[0].lower() == wanted["start"].lower())
        and ("avoid" not in wanted or not _mentions(text, wanted["avoid"]))
        and {"lower": not _any_upper(text), "upper": not _any_lower(text), None: True}[wanted.get("case")]
    )


def _items(listed: str, separator: str) -> list[str]:
    """The items of a list that is nothing but a list, else none."""
    if separator == "comma":
        items = [item.strip(" .") for item in listed.split(",")]
        return items if all(items) and "\n" not in listed else []
    lines = [line.strip() for line in listed.splitlines() if line.strip()]
    return [_BULLET.sub("", line, count=1) for line in lines] if all(map(_BULLET.match, lines)) else []


def _mentions(text: str, word: str) -> bool:
    return re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE) is not None


def _any_upper(text: str) -> bool:
    return any(letter.isupper() for letter in text)


def _any_lower(text: str) -> bool:
    return any(letter.islower() for letter in text)
