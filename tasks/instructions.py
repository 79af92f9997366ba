"""IFEval: lm-eval's own checkers, made to work without network and to give one answer to one text.

Two of the checkers want nltk's punkt models, which are fetched when lm-eval's module is imported and end the run where
they cannot be; ours splits sentences by rule instead. langdetect guesses by random draws, which are seeded here.
"""

import functools
import re
import types
from collections.abc import Mapping, Sequence
from typing import Any
from unittest import mock

Metrics = dict[str, float]

_END = re.compile(r"""([.!?]+)["'”’)\]*_]*\s+(?=(\S))""")
_NO_END = re.compile(
    r"(?:^|[\s(\"'“‘*_])(?:(?:[A-Z]\.)*[A-HJ-Z]|[a-z]\.[a-z]|etc|vs|al|Mr|Mrs|Ms|Dr|Prof|St|Mt|Gen|Col|Lt|Capt|Rev|Fig)$"
)


def score_ifeval(doc: Mapping[str, Any], results: Sequence[str]) -> Metrics:
    """All instructions of the prompt at once: on the text as it is (strict), and on it without its first or last line
    or asterisks (loose)."""
    checks = _checks()
    item = checks.InputExample(doc["key"], doc["instruction_id_list"], doc["prompt"], doc["kwargs"])
    strict = checks.test_instruction_following_strict(item, results[0])
    loose = checks.test_instruction_following_loose(item, results[0])
    return {
        "prompt_level_strict_acc": float(strict.follow_all_instructions),
        "prompt_level_loose_acc": float(loose.follow_all_instructions),
    }


def sentences(text: str) -> list[str]:
    """The sentences of `text`; each ends with a mark and white space.

    `Mr.`, `U.S.`, `e.g.` and initials end none, nor does an ellipsis before a small letter. The number of a list item
    is one, as it is to punkt.
    """
    found, start = [], 0
    for end in _END.finditer(text):
        said, marks, following = text[start : end.start()], end.group(1), end.group(2)
        if (marks == "." and _NO_END.search(said)) or (set(marks) == {"."} and len(marks) > 1 and following.islower()):
            continue
        found.append(text[start : end.end()].strip())
        start = end.end()
    rest = text[start:].strip()
    return [*found, rest] if rest else found


@functools.cache
def _checks() -> Any:
    """lm-eval's module, with our sentences in place of punkt's."""
    import langdetect
    import nltk

    langdetect.DetectorFactory.seed = 0
    with mock.patch("nltk.download", lambda *_, **__: True), mock.patch("nltk.data.find", lambda *_, **__: ""):
        from lm_eval.tasks.ifeval import instructions_util, utils

    def words(text: str) -> list[str]:
        return [word for one in sentences(text) for word in nltk.word_tokenize(one, preserve_line=True)]

    instructions_util.count_sentences = lambda text: len(sentences(text))
    instructions_util.nltk = types.SimpleNamespace(tokenize=nltk.tokenize, word_tokenize=words)
    return utils
