"""Traces: what is read is what was recorded, and a replay is the live decode."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

import drafters
from suite import trace
from suite.cells import Cell
from suite.decoding.decode import decode
from suite.errors import UserError
from suite.targets.base import Target
from suite.trace import Header, PromptTrace, Trace
from tasks import answers
from tasks.harness import Request
from tests.drafters.traces import TRAIN
from tests.toy import ToyTarget


class Sums:
    """A task that scores the length of an answer."""

    def score(self, doc_id: int, text: str) -> dict[str, float]:
        return {"length": float(len(text))}


TASK: Any = Sums()
CELL = Cell("toy", "sums", 0.0, "exact", 0, "none", 1, 0)


def made_header(target: Target, rule: str = "exact", temperature: float = 0.0) -> Header:
    spec = target.spec
    return replace(
        TRAIN,
        split="test",
        block_size=spec.block_size,
        vocab_size=spec.vocab_size,
        rule=rule,
        temperature=temperature,
    )


def request(doc_id: int) -> Request:
    return Request(doc_id, " ".join(map(str, [1 + doc_id % 4] * (doc_id + 2))), ())


@pytest.mark.parametrize("name", drafters.names())
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("rule", ["exact", "threshold(0.5)"])
def test_a_replay_is_the_live_decode(rule: str, temperature: float, name: str) -> None:
    toy = ToyTarget(size=6, vocabulary=12, smooth=0.8)
    header = made_header(toy, rule, temperature)
    for doc_id in range(4):
        one = trace.record_one(header, toy, request(doc_id))
        for rows in (2, 3, 5, 9):
            prompt = toy.encode(request(doc_id).prompt)
            live = decode(toy, prompt, header.policy, drafters.make(name), rows, one.seed, one.visits)
            replayed = trace.replay(one, header, drafters.make(name), rows)
            assert [(p.rows, p.depth) for p in replayed] == [(p.rows, p.depth) for p in live.passes]
            assert live.tokens == tuple(one.tokens)


def begun(root: Path) -> tuple[Trace, ToyTarget]:
    toy = ToyTarget()
    return trace.open_trace(root, CELL, "test", made_header(toy)), toy


def assert_equal(one: PromptTrace, other: PromptTrace) -> None:
    for mine, its in zip(one.steps, other.steps, strict=True):
        assert (mine.block, mine.state, mine.after) == (its.block, its.state, its.after)
        assert mine.log_probs.equal(its.log_probs)
        assert mine.token_ids.equal(its.token_ids)
        assert mine.margins.equal(its.margins)
    assert replace(one, steps=[]) == replace(other, steps=[])


def test_what_is_read_is_what_was_recorded(tmp_path: Path) -> None:
    made, toy = begun(tmp_path)
    trace.record(made, toy, [request(n) for n in range(3)], TASK)
    again = trace.open_trace(tmp_path, CELL, "test")
    assert again.doc_ids() == [0, 1, 2]
    for n in range(3):
        alone = trace.record_one(made.header, toy, request(n))
        text = answers.read(toy, request(n).prompt, alone.tokens, request(n).until).text
        assert_equal(again.read(n), replace(alone, text=text, scores={"length": float(len(text))}))


def test_an_interrupted_recording_is_taken_up_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, toy = begun(tmp_path)
    requests = [request(n) for n in range(3)]

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trace.record(made, toy, requests, TASK, stop)
    assert made.doc_ids() == [0, 1]
    recorded: list[int] = []
    real = trace.record_one
    monkeypatch.setattr(
        trace, "record_one", lambda header, target, one: recorded.append(one.doc_id) or real(header, target, one)
    )
    trace.record(made, toy, requests, TASK)
    assert recorded == [2]
    assert made.doc_ids() == [0, 1, 2]


@pytest.mark.parametrize(
    ("field", "value"),
    [("weights", "other"), ("rule", "threshold(0.9)"), ("temperature", 1.0), ("task_version", "2"), ("vocab_size", 7)],
)
def test_a_trace_of_something_else_is_refused_by_the_field(tmp_path: Path, field: str, value: object) -> None:
    made, _ = begun(tmp_path)
    with pytest.raises(UserError, match=f"recorded with {field} .*, wanted {re.escape(repr(value))}"):
        trace.open_trace(tmp_path, CELL, "test", replace(made.header, **{field: value}))


def test_a_damaged_or_foreign_prompt_is_refused(tmp_path: Path) -> None:
    made, toy = begun(tmp_path)
    trace.record(made, toy, [request(n) for n in range(3)], TASK)
    path = made.folder / "0.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    changed = made.folder / "1.safetensors"
    tensors = load_file(changed)
    tensors["afters"][0, 0] = 1 - tensors["afters"][0, 0].clamp(0, 1)
    meta = trace.safe_open(changed, "pt").metadata()
    save_file(tensors, changed, meta)
    for n in (0, 1):
        with pytest.raises(UserError, match="record again"):
            made.read(n)
    elsewhere = Trace(made.folder, replace(made.header, seed=4))
    with pytest.raises(UserError, match="not what was recorded"):
        elsewhere.read(2)
    with pytest.raises(UserError, match="cannot be read"):
        made.read(7)


def test_a_trace_that_is_none_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no trace of toy on sums .* spotbench record makes it"):
        trace.open_trace(tmp_path, CELL, "test")
    made, _ = begun(tmp_path)
    (made.folder / "trace.json").write_text(json.dumps({"schema": 99}))
    with pytest.raises(UserError, match="written by schema 99"):
        trace.open_trace(tmp_path, CELL, "test")
    (made.folder / "trace.json").write_text("[")
    with pytest.raises(UserError, match="not a trace"):
        trace.open_trace(tmp_path, CELL, "test")


def test_a_view_of_a_trace_is_the_live_one() -> None:
    """What a drafter is shown in a replay is what it is shown in a decode, to the last bit."""
    toy = ToyTarget(size=6, vocabulary=12)
    header = made_header(toy, temperature=1.0)
    one = trace.record_one(header, toy, request(1))
    seen: dict[str, list[object]] = {"live": [], "replayed": []}

    class Spy(drafters.Drafter):
        name = "spy"

        def __init__(self, into: list[object]) -> None:
            self.into = into

        def propose(self, view: drafters.DraftView, rows: int) -> list[tuple[int, ...]]:
            choice = view.choice(view.committed)
            self.into.append((view.state, view.block, view.log_probs.tolist(), view.token_ids.tolist(), choice))
            return []

    decode(toy, toy.encode(request(1).prompt), header.policy, Spy(seen["live"]), 3, one.seed)
    trace.replay(one, header, Spy(seen["replayed"]), 3)
    assert seen["live"]
    assert seen["live"] == seen["replayed"]
