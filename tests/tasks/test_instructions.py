"""IFEval without network: sentences by rule, and lm-eval's checkers on top of them."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tasks import instructions, maths


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("No mark", 1),
        ("One. Two? Three! Four", 4),
        ("Mr. Smith met Dr. J. R. Jones in the U.S. Senate. He paid $3.50.", 2),
        ("It was in 1999. Then I left.", 2),
        ("some do not. begin with capitals.", 2),
        ("Some, e.g. this one, vs. that one. Two.", 2),
        ("Wait... what? And so on... Then.", 3),
        ('He said "Stop." Then he left.', 2),
        ("**Bold.** Next.", 2),
        ("No. I do not.", 2),
    ],
)
def test_sentences(text: str, count: int) -> None:
    assert len(instructions.sentences(text)) == count
    assert " ".join(" ".join(instructions.sentences(text)).split()) == " ".join(text.split())


def item(instruction: str, **kwargs: Any) -> dict[str, Any]:
    return {"key": 1, "prompt": "p", "instruction_id_list": [instruction], "kwargs": [kwargs]}


@pytest.mark.parametrize(
    ("doc", "text", "strict", "loose"),
    [
        (item("length_constraints:number_sentences", relation="at least", num_sentences=3), "A dog. A cat. Me.", 1, 1),
        (item("length_constraints:number_sentences", relation="less than", num_sentences=3), "A dog. A cat. Me.", 0, 0),
        (item("change_case:capital_word_frequency", capital_relation="at least", capital_frequency=2), "OH NO", 1, 1),
        (item("change_case:capital_word_frequency", capital_relation="less than", capital_frequency=2), "OH NO", 0, 0),
        (item("punctuation:no_comma"), "Sure, here it is:\nNone", 0, 1),
        (item("punctuation:no_comma"), "", 0, 0),
        (item("language:response_language", language="de"), "Das ist ein ganz gewöhnlicher Satz.", 1, 1),
    ],
)
def test_one_instruction(doc: dict[str, Any], text: str, strict: int, loose: int) -> None:
    scores = instructions.score_ifeval(doc, [text])
    assert scores == {"prompt_level_strict_acc": strict, "prompt_level_loose_acc": loose}


ASK = """
import socket
from tasks.instructions import score_ifeval
def refuse(*_, **__): raise AssertionError("network")
socket.socket.connect = socket.getaddrinfo = refuse
doc = {"key": 1, "prompt": "p", "instruction_id_list": ["language:response_language"], "kwargs": [{"language": "de"}]}
print({score_ifeval(doc, ["so is het an de"])["prompt_level_strict_acc"] for _ in range(30)})
"""


def test_no_network_no_word_and_the_same_answer_each_time(tmp_path: Path) -> None:
    """langdetect draws at random: unseeded, a short text is now of this language, now of that."""
    home = str(Path(instructions.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": home, "NLTK_DATA": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout in ("{0.0}\n", "{1.0}\n")
    assert ran.stderr == ""


# --- MATH ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{\frac{3}{2}}.", r"\frac{3}{2}"),
        (r"\boxed{1} and \boxed{2}", "2"),
        (r"\fbox{7}", "7"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{7", None),
        ("7", None),
    ],
)
def test_the_last_box_with_its_braces(text: str, content: str | None) -> None:
    assert maths.boxed(text) == content


@pytest.mark.parametrize(
    ("gold", "answer", "same", "alike"),
    [
        ("10\\%", "10", True, False),
        ("90^\\circ", "90", True, True),
        ("1000", "1,000", True, True),
        ("1{,}000", "1000", True, True),
        ("x=5", "5", True, True),
        ("(1,234)", "(1234)", False, False),
        ("-2,2", "2,-2", False, True),
        ("2\\sqrt{3}", "\\sqrt{12}", False, True),
        ("\\frac12", "0.5", False, True),
        ("4", "5", False, False),
    ],
)
def test_equal_as_strings_and_as_mathematics(gold: str, answer: str, same: bool, alike: bool) -> None:
    assert (maths.normal(gold) == maths.normal(answer)) is same
    assert maths.equal(gold, answer) is alike


def test_off_the_main_thread_it_is_an_error_and_no_wrong_answer() -> None:
    raised: list[BaseException] = []

    def compare() -> None:
        try:
            maths.equal("1", "1")
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=compare)
    thread.start()
    thread.join()
    assert len(raised) == 1
