"""Rows of a block-causal target: both layouts, the cache and a plain forward pass agree."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import Qwen3ForCausalLM

from suite.decoding.state import MASK, Row, State
from suite.targets import catalog, load
from suite.targets.base import Target
from suite.targets.block_causal import BlockCausal

SPEC = catalog.spec("tiny-sdar-b16")
SIZE = SPEC.block_size
TOLERANCE = {"atol": 1e-4, "rtol": 1e-5}


@pytest.fixture(scope="module")
def layouts() -> dict[str, Target]:
    return {layout: load.load(SPEC, layout=layout) for layout in ("batch", "packed")}


@pytest.fixture(scope="module", params=["batch", "packed"])
def target(request: pytest.FixtureRequest, layouts: dict[str, Target]) -> Target:
    return layouts[request.param]


def tokens(count: int, seed: int) -> tuple[int, ...]:
    """Ordinary tokens: neither mask, padding nor end."""
    return tuple(torch.randint(4, SPEC.vocab_size, (count,), generator=torch.Generator().manual_seed(seed)).tolist())


def state(filled: Sequence[int], seed: int) -> State:
    return tuple(token if i in filled else MASK for i, token in enumerate(tokens(SIZE, seed)))


PREFIX = list(tokens(3 * SIZE, 0))
BLOCK, OTHER_BLOCK = tokens(SIZE, 1), tokens(SIZE, 2)
STATES = [state([], 3), state([0], 3), state([0, 7], 3), state([0, 7], 4), state(range(SIZE - 1), 5)]


def plain(target: Target, path: Sequence[int]) -> Tensor:
    """Logits `[B, V]` of the last block of `path`: one uncached pass under an explicit block-causal mask."""
    assert isinstance(target, BlockCausal)
    ids = torch.tensor([[SPEC.mask_id if token == MASK else token for token in path]])
    block = torch.arange(len(path)) // SIZE
    sees = (block[:, None] >= block[None, :])[None, None]
    with torch.inference_mode():
        logits = target._model(input_ids=ids, attention_mask=sees, use_cache=False).logits[0, -SIZE:].float()
        logits[:, SPEC.mask_id] = float("-inf")
    return logits


@pytest.mark.parametrize("prefix", [[], PREFIX], ids=["no prefix", "prefix"])
def test_every_row_sees_the_prefix_and_itself_only(target: Target, prefix: list[int]) -> None:
    seen = target.evaluate(target.prefill(prefix), [Row((), s) for s in STATES])
    assert seen.shape == (len(STATES), SIZE, SPEC.vocab_size)
    for logits, current in zip(seen, STATES, strict=True):
        torch.testing.assert_close(logits, plain(target, [*prefix, *current]), **TOLERANCE)


def test_a_row_is_the_same_alone_and_in_company(target: Target) -> None:
    together = target.evaluate(target.prefill(PREFIX), [Row((), s) for s in STATES])
    for logits, current in zip(together, STATES, strict=True):
        alone = target.evaluate(target.prefill(PREFIX), [Row((), current)])[0]
        torch.testing.assert_close(logits, alone, **TOLERANCE)


@pytest.mark.parametrize("finished", [(), (BLOCK,)], ids=["none", "one finished block"])
def test_both_layouts_agree(layouts: dict[str, Target], finished: tuple[State, ...]) -> None:
    rows = [Row(finished, s) for s in STATES]
    batch, packed = (layouts[name].evaluate(layouts[name].prefill(PREFIX), rows) for name in ("batch", "packed"))
    torch.testing.assert_close(packed, batch, **TOLERANCE)


def test_a_finished_block_that_rides_along_is_seen_like_a_committed_one(target: Target) -> None:
    riding = target.evaluate(target.prefill(PREFIX), [Row((BLOCK,), s) for s in STATES])
    committed = target.evaluate(target.prefill([*PREFIX, *BLOCK]), [Row((), s) for s in STATES])
    torch.testing.assert_close(riding, committed, **TOLERANCE)
    torch.testing.assert_close(riding[0], plain(target, [*PREFIX, *BLOCK, *STATES[0]]), **TOLERANCE)


@pytest.mark.parametrize("prefix", [[], PREFIX], ids=["no prefix", "prefix"])
@pytest.mark.parametrize("current", [(), STATES[1]], ids=["commit only", "rides along"])
def test_what_is_kept_equals_a_fresh_prefill(target: Target, prefix: list[int], current: State) -> None:
    context = target.prefill(prefix)
    rows = [Row((BLOCK,), current)] if not current else [Row((BLOCK,), s) for s in STATES]
    target.evaluate(context, rows)
    target.keep(context, Row((BLOCK,), current))
    fresh = target.prefill([*prefix, *BLOCK])
    assert isinstance(target, BlockCausal)
    assert context.length == fresh.length == len(prefix) + SIZE
    assert context.paths == {}
    for kept, wanted in zip(context.cache.layers, fresh.cache.layers, strict=True):
        assert kept.keys.shape == wanted.keys.shape
        torch.testing.assert_close(kept.keys, wanted.keys, **TOLERANCE)
        torch.testing.assert_close(kept.values, wanted.values, **TOLERANCE)


def test_keeping_no_finished_block_forgets_the_pass(target: Target) -> None:
    context = target.prefill(PREFIX)
    before = target.evaluate(context, [Row((), STATES[0])])
    target.keep(context, Row((), STATES[0]))
    target.evaluate(context, [Row((), s) for s in STATES[1:]])
    target.keep(context, Row((), STATES[1]))
    after = target.evaluate(context, [Row((), STATES[0])])
    torch.testing.assert_close(after, before, **TOLERANCE)


@pytest.mark.parametrize("accepted", [0, 1])
def test_one_of_two_finished_blocks_is_kept(target: Target, accepted: int) -> None:
    """Drafts across a block border: rows with different finished parts, of which one is accepted."""
    blocks = [BLOCK, OTHER_BLOCK]
    context = target.prefill(PREFIX)
    target.evaluate(context, [Row((block,), STATES[0]) for block in blocks])
    target.keep(context, Row((blocks[accepted],), STATES[0]))
    seen = target.evaluate(context, [Row((), STATES[2])])[0]
    torch.testing.assert_close(seen, plain(target, [*PREFIX, *blocks[accepted], *STATES[2]]), **TOLERANCE)


def test_the_packed_layout_takes_rows_of_unequal_length(layouts: dict[str, Target]) -> None:
    packed = layouts["packed"]
    rows = [Row((), STATES[1]), Row((BLOCK,), STATES[1]), Row((BLOCK, OTHER_BLOCK), STATES[1])]
    seen = packed.evaluate(packed.prefill(PREFIX), rows)
    for logits, row in zip(seen, rows, strict=True):
        path = [*PREFIX, *(token for block in row.finished for token in block), *row.current]
        torch.testing.assert_close(logits, plain(packed, path), **TOLERANCE)


def test_the_batch_layout_refuses_rows_of_unequal_length(layouts: dict[str, Target]) -> None:
    batch = layouts["batch"]
    with pytest.raises(ValueError, match="packed layout"):
        batch.evaluate(batch.prefill(PREFIX), [Row((), STATES[1]), Row((BLOCK,), STATES[1])])


def test_the_mask_token_is_never_predicted(target: Target) -> None:
    seen = target.evaluate(target.prefill(PREFIX), [Row((), STATES[0])])
    assert bool((seen[..., SPEC.mask_id] == float("-inf")).all())
    assert bool(seen[..., : SPEC.mask_id].isfinite().all())


def test_requests_do_not_share_a_context(target: Target) -> None:
    one, other = target.prefill(PREFIX), target.prefill(PREFIX)
    target.evaluate(one, [Row((BLOCK,), STATES[0])])
    target.keep(one, Row((BLOCK,), STATES[0]))
    seen = target.evaluate(other, [Row((), STATES[0])])[0]
    torch.testing.assert_close(seen, plain(target, [*PREFIX, *STATES[0]]), **TOLERANCE)


def test_the_catalogue_and_the_checkpoint_agree() -> None:
    config = json.loads((Path(SPEC.source) / "config.json").read_text())
    model = Qwen3ForCausalLM.from_pretrained(SPEC.source, dtype=torch.float32)
    assert model.get_output_embeddings().weight.shape[0] == SPEC.vocab_size
    assert config["eos_token_id"] in SPEC.stop_ids
    assert set(SPEC.excluded_ids) >= {SPEC.mask_id}
