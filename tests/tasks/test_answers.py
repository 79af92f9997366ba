"""What is read from the tokens of a decode, on a tokenizer of a look-alike and on one that adds special tokens."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from suite.targets import catalog, load
from suite.targets.base import Target
from tasks import answers
from tasks.answers import Answer, cut

TARGET = load.load(catalog.spec("tiny-sdar-b16"))
END, MASK, PAD = 2, TARGET.spec.mask_id, TARGET.spec.pad_id


def read(tokens: Sequence[int], until: Sequence[str] = (), prompt: str = "") -> Answer:
    return answers.read(TARGET, prompt, tokens, until)


def ids(text: str) -> list[int]:
    return TARGET.encode(text)


def test_it_ends_before_the_first_end_token() -> None:
    assert read([*ids("3 + 4 = 7"), END, *ids("and more"), END]) == Answer("3 + 4 = 7", "end")
    assert read([END, *ids("late")]) == Answer("", "end")
    assert read(ids("3 + 4")) == Answer("3 + 4", "length")
    assert read([]) == Answer("", "length")


def test_special_tokens_are_no_text_wherever_they_stand() -> None:
    assert read([MASK, *ids("3 +"), MASK, *ids(" 4"), MASK, END]).text == "3 + 4"
    assert PAD in TARGET.spec.stop_ids, "as it is here, padding ends an answer"


@pytest.mark.parametrize("text", ["    return x\n", "\n\n  a .\n", " , ( x ) ' s", "a  b   c", "\tx"])
def test_white_space_is_kept_as_it_was_said(text: str) -> None:
    assert read([*ids(text), END]) == Answer(text, "end")


def test_a_stop_string_cuts_and_is_told() -> None:
    assert read([*ids("7\nQuestion: 8"), END], ["Question:"]) == Answer("7\n", "stop")
    assert read(ids("7\nQuestion: 8"), ["8", "Question:"]) == Answer("7\n", "stop")
    assert read([*ids("7"), END], ["Question:"]) == Answer("7", "end")


def test_thinking_is_no_answer_and_stops_do_not_fire_in_it() -> None:
    assert read([*ids("<think>\nlet me see. ####\n</think>\n\n    7 #### 8"), END], ["####"]) == Answer(
        "    7 ", "stop"
    )
    assert read([*ids("so 7\n</think>\n7"), END], prompt="<user>3 + 4<assistant><think>\n") == Answer("7", "end")
    assert read([*ids("<think></think>7"), END]) == Answer("7", "end")


def test_thinking_without_an_end_leaves_no_answer() -> None:
    assert read(ids("<think>\nit is 7, is it")) == Answer("", "length")
    assert read(ids("it is 7, is it"), prompt="<assistant><think>\n") == Answer("", "length")
    assert read(ids("I <think> it is 7")) == Answer("I <think> it is 7", "length")


@pytest.mark.parametrize(
    ("text", "until", "kept"),
    [
        ("    x\n\nB", ["\n\n"], "    x"),
        ("a B c D", ["D", "B"], "a "),
        ("a", ["B"], "a"),
        ("a", [], "a"),
        ("a", [""], "a"),
        ("Ba", ["B"], ""),
    ],
)
def test_cut_at_the_earliest_stop(text: str, until: list[str], kept: str) -> None:
    assert cut(text, until) == kept


@given(st.text("ab\n", max_size=12), st.lists(st.text("ab\n", max_size=3), max_size=3))
def test_what_is_cut_is_a_beginning_without_any_stop(text: str, until: list[str]) -> None:
    kept = cut(text, until)
    assert text.startswith(kept)
    assert not any(stop and stop in kept for stop in until)
    assert kept == text or any(stop and text[len(kept) :].startswith(stop) for stop in until)


@pytest.fixture
def with_bos(monkeypatch: pytest.MonkeyPatch) -> Target:
    """A target whose template writes the BOS and whose tokenizer would add one; its end token is no special one."""
    inner = Tokenizer(models.BPE(dict(zip(pre_tokenizers.ByteLevel.alphabet(), range(256), strict=True)), []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([AddedToken("<s>", special=True)])
    inner.add_tokens([AddedToken("<end>", special=False)])
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 256)])
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", clean_up_tokenization_spaces=True)
    tokenizer.chat_template = "{{ bos_token }}{% for m in messages %}{{ m['content'] }}{% endfor %}:"
    target: Any = load.load(catalog.spec("tiny-sdar-b16"))
    monkeypatch.setattr(target, "_tokenizer", tokenizer)
    return target  # type: ignore[no-any-return]


def test_a_prompt_begins_with_one_bos_though_the_tokenizer_would_add_another(with_bos: Target) -> None:
    assert with_bos.encode(with_bos.chat([{"role": "user", "content": "hi"}])).count(256) == 1
    assert with_bos._tokenizer("<s>hi")["input_ids"].count(256) == 2  # type: ignore[attr-defined]


def test_an_end_token_that_is_not_special_is_no_text_either(with_bos: Target) -> None:
    from dataclasses import replace

    with_bos.spec = replace(with_bos.spec, stop_ids=frozenset({257}), pad_id=256)
    said = with_bos.encode("  it 's 7 .<end>more")
    assert answers.read(with_bos, "", said, []) == Answer("  it 's 7 .", "end")


@pytest.mark.parametrize("name", [name for name, spec in catalog.CATALOG.items() if spec.tiny])
def test_the_template_of_each_look_alike_is_applied_once(name: str) -> None:
    """What it writes is read back as the same tokens, and there is one turn to answer."""
    target = load.load(catalog.spec(name))
    prompt = target.chat([{"role": "user", "content": "What is 3 + 4?"}])
    assert prompt.count("What is 3 + 4?") == 1
    assert prompt.count("assistant") == 1
    beginning = target.encode(prompt)[0]
    assert target.encode(prompt).count(beginning) <= 2, "of the user's and the assistant's turn"
