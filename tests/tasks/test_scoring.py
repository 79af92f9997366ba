"""How answers are read: numbers, boxes, fences and constraints."""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import maths, scoring


# The first rows are answers on which the usual regular expressions go wrong, for a gold of 18.
@pytest.mark.parametrize(
    ("text", "marked", "final"),
    [
        ("#### 18", 18, 18),
        ("#### 18.", 18, 18),
        ("#### $18", 18, 18),
        ("#### 18.00", 18, 18),
        ("The answer is 18", None, 18),
        ("so 18...", None, 18),
        ("18 dollars. Bye ,,", None, 18),
        ("#### 18\n\nQuestion: x 99", 18, 18),
        ("#### 18 eggs at 3pm", 18, 18),
        ("- 18", None, -18),
        ("#### -18", -18, -18),
        ("#### -$1,800.50", Decimal("-1800.5"), Decimal("-1800.5")),
        ("####18", 18, 18),
        ("3 + 4 = 7\n####\n18", 18, 18),
        ("20 - 18", None, 18),
        ("(1 + 1) - 18", None, 18),
        ("it is -18", None, -18),
        ("1, 2, 18", None, 18),
        ("1,2345", None, 2345),
        ("about .5", None, Decimal("0.5")),
        ("so ...18", None, 18),
        ("####", None, None),
        ("7 eggs ####", None, None),
        ("none", None, None),
        ("", None, None),
    ],
)
def test_numbers_are_read_as_a_person_would(text: str, marked: object, final: object) -> None:
    assert scoring.marked_number(text) == marked
    assert scoring.final_number(text) == final


RENDERINGS = {
    "bare": str,
    "sentence": "So the answer is {}.".format,
    "dots": "{}...".format,
    "decimals": "{}.00".format,
    "thousands": "{:,}".format,
    "bold": "**{}**".format,
    "equation": "x = {}".format,
    "dollars": lambda n: f"${n}" if n >= 0 else f"-${-n}",
    "difference": lambda n: f"7 - 3 = {n}",
}


@given(number=st.integers(-(10**15), 10**15), rendering=st.sampled_from(sorted(RENDERINGS)))
def test_any_integer_is_read_back(number: int, rendering: str) -> None:
    text = RENDERINGS[rendering](number)
    assert scoring.final_number(text) == number
    if rendering != "difference" and rendering != "equation":
        assert scoring.marked_number(f"1 + 2 = 3\n#### {text}\n99") == number


@given(number=st.integers(-(10**15), 10**15), form=st.sampled_from(["{}", " {} ", "${}$", "{}.", "{}.0", "n = {}"]))
def test_any_boxed_integer_is_read_back(number: int, form: str) -> None:
    assert scoring.boxed_number(f"3 + 4 = 7, so \\boxed{{{form.format(number)}}}.") == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (r"\boxed{1000} then \boxed{7}", 7),
        (r"\boxed{3 + 4}", None),
        (r"\boxed{5x}", None),
        (r"\boxed{\frac{3}{2}}", None),
        (r"\boxed{}", None),
        (r"\boxed{7", None),
        ("7", None),
    ],
)
def test_a_box_holds_one_number_and_nothing_else(text: str, number: int | None) -> None:
    assert scoring.boxed_number(text) == number


def test_mathematics_is_not_compared_where_its_timer_cannot_work() -> None:
    """Off the main thread math-verify calls every answer wrong, and says nothing."""
    with ThreadPoolExecutor(1) as pool, pytest.raises(RuntimeError, match="main thread only"):
        pool.submit(maths.equal, "1/2", "0.5").result()
    assert maths.equal("1/2", "0.5")


def test_gsm_tells_the_marked_from_any_last_number() -> None:
    assert scoring.score_gsm({"result": "18"}, ["It is 18."]) == {"exact_match": 0.0, "flexible_match": 1.0}
    assert scoring.score_gsm({"result": "18"}, ["18\n#### 17"]) == {"exact_match": 0.0, "flexible_match": 0.0}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("    return 1\n", "    return 1\n"),
        ("Here:\n```python\n    return 1\n```\nand\n```\n2\n```", "    return 1"),
        ("```\nreturn 1", "return 1"),
    ],
)
def test_code_is_the_first_fence_or_all_with_its_indentation(text: str, code: str) -> None:
    assert scoring.code_of(text) == code


def test_code_is_scored_by_its_tests() -> None:
    doc = {"tests": ["assert f(1) == 2"]}
    assert scoring.score_code(doc, ["def f(x):\n    return x + 1"]) == {"pass@1": 1.0}
    assert scoring.score_code(doc, ["def f(x):\n    return x"]) == {"pass@1": 0.0}
    assert scoring.score_code(doc, ["raise SystemExit(0)"]) == {"pass@1": 0.0}


COMMAS: dict[str, Any] = {"count": 2, "separator": "comma"}
BULLETS: dict[str, Any] = {"count": 2, "separator": "bullet"}


@pytest.mark.parametrize(
    ("text", "checks", "kept"),
    [
        ("cat, dog", COMMAS, True),
        ("cat, dog.", COMMAS, True),
        ("cat, dog, owl", COMMAS, False),
        ("cat", COMMAS, False),
        ("cat,", COMMAS, False),
        ("cat, Cat", COMMAS, False),
        ("- cat\n- dog", COMMAS, False),
        ("- cat\n- dog", BULLETS, True),
        ("* cat\n\n* dog\n", BULLETS, True),
        ("- cat\ndog", BULLETS, False),
        ("- cat\n-", BULLETS, False),
        ("cat, dog", BULLETS, False),
        ("", COMMAS, False),
        (" \n", BULLETS, False),
        ("cat, dog\ndone", COMMAS | {"end": "done"}, True),
        ("cat, dog\nDone.", COMMAS | {"end": "done"}, True),
        ("cat, dog, done", COMMAS | {"end": "done"}, False),
        ("cat, dog", COMMAS | {"end": "done"}, False),
        ("done\ncat, dog", COMMAS | {"end": "done"}, False),
        ("done", COMMAS | {"end": "done"}, False),
        ("cat, dog\ndone", COMMAS, False),
        ("cat, dog", COMMAS | {"case": "lower"}, True),
        ("cat, Dog", COMMAS | {"case": "lower"}, False),
        ("CAT, DOG", COMMAS | {"case": "upper"}, True),
        ("CAT, dOG", COMMAS | {"case": "upper"}, False),
        ("dog, cat", COMMAS | {"start": "dog"}, True),
        ("DOG, CAT", COMMAS | {"start": "dog"}, True),
        ("cat, dog", COMMAS | {"start": "dog"}, False),
        ("dogma, cat", COMMAS | {"start": "dog"}, False),
        ("cat, dog", COMMAS | {"avoid": "dog"}, False),
        ("cat, dogma", COMMAS | {"avoid": "dog"}, True),
        ("cat, dog", COMMAS | {"start": "cat", "avoid": "dog"}, False),
        ("cat, dog", COMMAS | {"end": None, "case": None, "start": None, "avoid": None}, True),
    ],
)
def test_constraints(text: str, checks: dict[str, Any], kept: bool) -> None:
    assert scoring.follows(text, checks) is kept
