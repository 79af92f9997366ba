"""Every family: its published checkpoint is the native model, and its rows mean what its reference says.

The references here are written out plainly: every pass recomputes the whole sequence, without a cache.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import PreTrainedModel

import drafters
from suite.decoding.decode import decode
from suite.decoding.policy import ContextPolicy, Policy
from suite.decoding.rules import parse_rule
from suite.decoding.state import MASK, Row, State
from suite.targets import catalog, load
from suite.targets.base import Family, Target
from suite.targets.native import Layout
from tests.targets.checkpoints import END_ID, MASK_ID, PUBLISHED, VOCABULARY, write

SIZE = 4
WAYS = [(family.name, context) for family in catalog.FAMILIES for context in family.contexts]
FULL = [family.name for family in catalog.FAMILIES if family.attention == "full"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, PreTrainedModel]]:
    home = tmp_path_factory.mktemp("published")
    return {name: (home / name, write(name, home / name)) for name in PUBLISHED}


Made = dict[str, tuple[Path, PreTrainedModel]]


def target(made: Made, name: str, context: ContextPolicy | None = None, layout: Layout = "batch") -> Target:
    spec = replace(catalog.recognise(made[name][0]), block_size=SIZE)
    return load.load(spec, layout=layout, context_policy=context, text=False)


def plain(family: Family, model: PreTrainedModel, ids: Sequence[int]) -> Tensor:
    """Raw logits `[L, V]` of one uncached pass under an explicit mask."""
    block = torch.arange(len(ids)) // SIZE
    sees = torch.ones(len(ids), len(ids), dtype=torch.bool) if family.attention == "full" else block[:, None] >= block
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([ids]), attention_mask=sees[None, None], use_cache=False).logits[0]
        logits[:, MASK_ID] = float("-inf")
    return logits


def of(name: str) -> Family:
    return next(family for family in catalog.FAMILIES if family.name == name)


def prompt(length: int, seed: int = 0) -> list[int]:
    return [random.Random(f"{seed}/{n}").randrange(END_ID) for n in range(length)]


def test_every_family_is_tried() -> None:
    assert set(PUBLISHED) == {family.name for family in catalog.FAMILIES}
    assert {spec.family.name for spec in catalog.CATALOG.values()} == set(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_checkpoint_is_the_native_model(name: str, made: Made) -> None:
    one, (folder, model) = target(made, name), made[name]
    spec = catalog.recognise(folder)
    assert (spec.family.name, spec.mask_id, spec.stop_ids, spec.vocab_size) == (name, MASK_ID, {END_ID}, VOCABULARY)
    loaded = one._model.state_dict()  # type: ignore[attr-defined]
    assert loaded.keys() == model.state_dict().keys()
    for key, tensor in model.state_dict().items():
        assert torch.equal(loaded[key], tensor), key


def reference(family: Family, model: PreTrainedModel, ids: list[int], new: int, rule: str) -> tuple[list[int], int]:
    """The answer's whole blocks and the passes that decide them, T = 0, written out as the family's own code has it."""
    choose = parse_rule(rule).choose
    whole = family.attention == "full"
    start = len(ids) if whole else len(ids) // SIZE * SIZE
    end = start + -(-(len(ids) + new - start) // SIZE) * SIZE
    x = ids + [MASK_ID] * (end - len(ids))
    passes = 0
    for first in range(start, end, SIZE):
        block = range(first, first + SIZE)
        if family.commit_yields_token and x[first] == MASK_ID:
            x[first] = int(plain(family, model, x[:first])[-1].argmax())
        while hidden := [n for n in block if x[n] == MASK_ID]:
            logits = plain(family, model, x if whole else x[: first + SIZE])
            rows = logits[[max(0, n - family.shift) for n in hidden]]
            confidence, token = rows.softmax(-1).max(-1)
            for k in choose(confidence.tolist()):
                x[hidden[k]] = int(token[k])
            passes += 1
        if END_ID in x[max(first, len(ids)) : first + SIZE]:
            return x[len(ids) : first + SIZE], passes
    return x[len(ids) :], passes


@pytest.mark.parametrize("rule", ["exact", "threshold(0.4)"])
@pytest.mark.parametrize("length", [3, 4, 5, 8, 10])
@pytest.mark.parametrize("name", PUBLISHED)
def test_decoding_is_the_familys_own(name: str, length: int, rule: str, made: Made) -> None:
    family, ids = of(name), prompt(length)
    policy = Policy(SIZE, 12, parse_rule(rule), confidence=family.confidence, commit=family.commits[0])
    wanted, passes = reference(family, made[name][1], ids, 12, rule)
    for layout in ("batch", "packed"):
        one = target(made, name, layout=layout)  # type: ignore[arg-type]
        done = decode(one, ids, policy, drafters.make("none"))
        assert list(done.tokens) == wanted[: len(done.tokens)]
        assert len(done.tokens) in (12, wanted.index(END_ID) + 1 if END_ID in wanted else 12)
        assert len(done.passes) == passes


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(("name", "context"), WAYS)
def test_drafts_change_the_passes_and_nothing_else(
    name: str, context: ContextPolicy, temperature: float, made: Made
) -> None:
    family, one = of(name), target(made, name, context)
    policy = Policy(SIZE, 16, temperature=temperature, confidence=family.confidence, commit=family.commits[0], top_k=10)
    accepted = 0
    for length in (4, 7):
        alone = decode(one, prompt(length), policy, drafters.make("none"), seed=5)
        for drafter in ("chain", "best-first", "oracle"):
            done = decode(one, prompt(length), policy, drafters.make(drafter), 5, 5, future=alone.visits)
            assert done.visits == alone.visits
            assert (done.commit_passes, done.prefill_passes) == (alone.commit_passes, alone.prefill_passes)
            accepted += len(alone.passes) - len(done.passes)
    assert accepted > 0


def in_three_ways(one: Target, packed: Target, rows: Sequence[Row], ids: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of the rows as a batch, packed, and one by one, each after the block's first pass."""

    def passed(target: Target, rows: Sequence[Row]) -> Tensor:
        context = target.prefill(ids, 3)
        opening = Row((), (MASK,) * SIZE)
        target.evaluate(context, [opening])
        target.keep(context, opening)
        return target.evaluate(context, rows)

    return passed(one, rows), passed(packed, rows), torch.cat([passed(one, [row]) for row in rows])


STATES = st.lists(
    st.lists(st.sampled_from([MASK, 0, 7, 33, 60]), min_size=SIZE, max_size=SIZE).map(tuple),
    min_size=1,
    max_size=6,
    unique=True,
)


@pytest.mark.parametrize(("name", "context"), WAYS)
def test_rows_agree_in_every_layout(name: str, context: ContextPolicy, made: Made) -> None:
    one, packed = target(made, name, context), target(made, name, context, "packed")

    @settings(max_examples=15)
    @given(states=STATES, blocks=st.integers(1, 3))
    def agree(states: list[State], blocks: int) -> None:
        batch, beside, alone = in_three_ways(one, packed, [Row((), s) for s in states], prompt(SIZE * blocks))
        torch.testing.assert_close(batch, alone, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(beside, alone, atol=1e-4, rtol=1e-4)

    agree()


@pytest.mark.parametrize("name", FULL)
def test_a_frozen_context_is_frozen_and_a_whole_one_is_not(name: str, made: Made) -> None:
    family, model = of(name), made[name][1]
    ids, state = prompt(6), (5, MASK, 9, MASK)
    sequence = [*ids, *(MASK_ID if t == MASK else t for t in state), *[MASK_ID] * SIZE]
    fresh = plain(family, model, sequence)[len(ids) - family.shift :][:SIZE]
    seen: dict[str, Tensor] = {}
    for context in family.contexts:
        one = target(made, name, context)
        kept = one.prefill(ids, 2)
        opening = Row((), (MASK,) * SIZE)
        first = one.evaluate(kept, [opening])[0]
        unfilled = plain(family, model, [*ids, *[MASK_ID] * (2 * SIZE)])[len(ids) - family.shift :][:SIZE]
        torch.testing.assert_close(first, unfilled, atol=1e-4, rtol=1e-4)
        one.keep(kept, opening)
        seen[context] = one.evaluate(kept, [Row((), state)])[0]
        if family.shift and context != "whole":  # the row before the block belongs to the frozen context
            torch.testing.assert_close(seen[context][0], unfilled[0], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(seen["whole"], fresh, atol=1e-4, rtol=1e-4)
    finite = seen["whole"].isfinite()
    assert all(
        (seen[a] - seen[b])[finite].abs().max() > 1e-3
        for a, b in [("whole", "frozen"), ("whole", "prefix"), ("frozen", "prefix")]
    )


def test_a_blocks_first_pass_takes_one_row_where_it_freezes(made: Made) -> None:
    one = target(made, "LLaDA", "frozen")
    rows = [Row((), (MASK,) * SIZE), Row((), (1, *(MASK,) * (SIZE - 1)))]
    with pytest.raises(ValueError, match="takes one row"):
        one.evaluate(one.prefill(prompt(5), 2), rows)


def test_a_target_has_only_its_familys_contexts(made: Made) -> None:
    with pytest.raises(ValueError, match="'frozen' is none of cached"):
        target(made, "SDAR", "frozen")


@pytest.mark.parametrize("length", [3, 4, 8])
def test_a_productive_commit_decides_the_next_blocks_first_token(length: int, made: Made) -> None:
    """Fast-dLLM v2: 3 passes and a commit for a block of 4; of whole blocks, the prefill decides the next token."""
    one, ids = target(made, "Fast-dLLM v2"), prompt(length)
    done = decode(one, ids, Policy(SIZE, 12, commit="separate"), drafters.make("none"))
    blocks: dict[int, list[State]] = {}
    for block, state in done.visits:
        blocks.setdefault(block, []).append(state)
    aligned = [block for block in blocks if block * SIZE >= length]
    assert all(blocks[block][0].count(MASK) == SIZE - 1 for block in aligned)
    assert len(done.passes) == sum(len(states) for states in blocks.values()) - len(aligned)
    assert done.commit_passes == len(blocks)
    assert done.prefill_passes == int(length >= SIZE)
