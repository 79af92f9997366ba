"""The shipped tiny target and its training."""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoTokenizer

import drafters
import tasks.harness
from suite.decoding.decode import decode
from suite.errors import UserError
from suite.targets import catalog, load
from suite.targets.base import TargetSpec
from suite.targets.tiny import train
from suite.targets.tiny.card import TASKS
from suite.targets.tiny.train import RECIPES, Recipe, Stage, Training, block_causal_batch, full_batch
from tasks import answers

SPEC = catalog.spec("tiny-sdar-b16")
FOLDER = Path(SPEC.source)
SPECS = [spec for spec in catalog.CATALOG.values() if spec.tiny]
six = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)


def test_there_is_one_of_every_form_with_a_recipe_each() -> None:
    assert [spec.name for spec in SPECS] == list(RECIPES)
    forms = {(s.family.attention, s.family.shift, s.family.commit_yields_token, s.family.native_class) for s in SPECS}
    assert len(forms) == 5, "two of the six differ in width, depth and block alone"


@six
def test_it_is_an_ordinary_small_hugging_face_checkpoint(spec: TargetSpec) -> None:
    folder = Path(spec.source)
    assert (folder / "model.safetensors").stat().st_size < 3e6
    model = getattr(transformers, spec.family.native_class).from_pretrained(folder, dtype="auto")
    assert model.dtype == torch.float16
    assert sum(p.numel() for p in model.parameters()) == spec.parameters
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer) == model.config.vocab_size == spec.vocab_size
    assert (tokenizer.mask_token_id, tokenizer.pad_token_id) == (spec.mask_id, spec.pad_id)
    assert {tokenizer.eos_token_id, tokenizer.pad_token_id} == spec.stop_ids
    assert not list(folder.glob("*.py")), "no code beside the weights"


@six
def test_its_card_and_its_recipe_are_those_of_the_code(spec: TargetSpec) -> None:
    folder, recipe = Path(spec.source), RECIPES[spec.name]
    training = json.loads((folder / "training.json").read_text())
    assert training["recipe"] == json.loads(json.dumps(asdict(recipe)))
    assert training["steps"] == recipe.steps
    assert (recipe.native_class, recipe.block) == (spec.family.native_class, spec.block_size)
    assert (recipe.shift, recipe.stages[-1].kind) == (spec.family.shift, spec.family.attention)
    card = (folder / "README.md").read_text()
    assert "look-alike for tests and development" in card
    assert card.count("| yes |") + card.count("| **no** |") == 6, "every bar is there, held or missed"


def test_the_home_target_holds_every_bar() -> None:
    assert (FOLDER / "README.md").read_text().count("| yes |") == 6


@six
def test_it_can_do_some_of_its_tasks(spec: TargetSpec) -> None:
    target, scores = load.load(spec), []
    for name in TASKS:
        task = tasks.harness.load(name)
        policy = spec.policy(task.max_new_tokens)
        for request in task.requests(target.chat, 4):
            done = decode(target, target.encode(request.prompt), policy, drafters.make("none"))
            text = answers.read(target, request.prompt, done.tokens, request.until).text
            scores.append(task.score(request.doc_id, text)[task.metric])
    assert sum(scores) / len(scores) >= 0.2, "far from the bars of the cards: only that it is no noise"


SMALL = Recipe(
    "Qwen3ForCausalLM",
    block=4,
    hidden=16,
    layers=1,
    heads=2,
    kv_heads=1,
    intermediate=16,
    stages=(Stage("causal", 2, batch=2), Stage("block-causal", 2, batch=2)),
)


def test_an_interrupted_training_ends_where_an_undisturbed_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Training(SMALL, tmp_path / "whole")
    whole.run()
    with monkeypatch.context() as patch:
        patch.setattr(train, "block_causal_batch", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            Training(SMALL, tmp_path / "cut").run()
    again = Training(SMALL, tmp_path / "cut")
    assert again.step == SMALL.stages[0].steps
    again.run()
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name]), name


def test_a_noised_block_sees_itself_and_the_clean_blocks_before_it() -> None:
    ids = list(range(10, 22))  # three blocks of 4; the answer begins at position 6
    batch = block_causal_batch([(ids, 6)], block=4, shift=0, pad=0, mask=1, copies=2, rng=random.Random(0))
    positions, seen = batch.positions[0].tolist(), batch.attention[0, 0]
    clean, noised = range(8), range(8, 24)
    assert positions == [*range(8), *range(4, 12), *range(4, 12)]
    for query in noised:
        first = 8 if query < 16 else 16  # its copy
        for key in range(24):
            earlier = key in clean and positions[key] // 4 < positions[query] // 4
            itself = first <= key < first + 8 and positions[key] // 4 == positions[query] // 4
            assert bool(seen[query, key]) == (earlier or itself), (query, key)
    for query in clean:
        assert seen[query].nonzero().flatten().tolist() == list(range((query // 4 + 1) * 4))


def test_masked_positions_alone_are_learned_and_each_block_weighs_the_same() -> None:
    samples = [(list(range(10, 22)), 6), (list(range(10, 18)), 1)]
    for seed in range(20):
        batch = block_causal_batch(samples, block=4, shift=0, pad=0, mask=1, copies=2, rng=random.Random(seed))
        hidden = batch.ids == 1
        assert torch.equal(hidden, batch.labels >= 0)
        assert torch.equal(hidden, batch.weights > 0)
        assert (batch.labels[hidden] == batch.positions[hidden] + 10).all(), "the label is the token that was there"
        assert not hidden[0, :8].any()
        assert batch.weights.sum() == pytest.approx(2 * (2 + 2)), "1/p over the answer positions of 8 noised blocks"


def test_with_a_shift_a_label_is_at_the_row_before_and_a_blocks_first_token_is_learned_from_clean_rows() -> None:
    ids = list(range(10, 22))  # three blocks of 4; the answer begins at position 6
    for seed in range(20):
        batch = block_causal_batch([(ids, 6)], block=4, shift=1, pad=0, mask=1, copies=2, rng=random.Random(seed))
        hidden = batch.ids[0] == 1
        assert not hidden[:8].any()
        assert not hidden[batch.positions[0] % 4 == 0].any(), "a block's first token is never masked"
        labelled = (batch.labels[0] >= 0).nonzero().flatten().tolist()
        assert [int(batch.labels[0, n]) for n in labelled] == [int(batch.positions[0, n]) + 11 for n in labelled]
        assert [n for n in labelled if n < 8] == [7], "the clean row before block 2 predicts its first token"
        assert {n for n in labelled if n >= 8} == {n - 1 for n in hidden.nonzero().flatten().tolist()}


@pytest.mark.parametrize("shift", [0, 1])
def test_with_full_attention_what_comes_after_the_noised_block_is_masked(shift: int) -> None:
    ids = list(range(10, 23))  # a prompt of 5 and two blocks of 4
    for seed in range(20):
        batch = full_batch([(ids, 5)], block=4, shift=shift, pad=0, mask=1, copies=1, rng=random.Random(seed))
        assert len(batch.ids) == 2, "one sequence for each block"
        for row, first in enumerate((5, 9)):
            held = batch.ids[row].tolist()
            assert held[:first] == ids[:first]
            rest = [token for token, seen in zip(held, batch.attention[row, 0, 0].tolist(), strict=True) if seen]
            assert (len(rest) - 5) % 4 == 0
            assert set(rest[first + 4 :]) <= {1}
            labelled = (batch.labels[row] >= 0).nonzero().flatten().tolist()
            assert labelled == [n - shift for n in range(first, first + 4) if held[n] == 1]
            assert [int(batch.labels[row, n]) for n in labelled] == [ids[n + shift] for n in labelled]
            assert batch.weights[row].sum() == pytest.approx(1.0)


def test_a_target_begins_with_its_ancestors_weights(tmp_path: Path) -> None:
    recipe = replace(RECIPES["tiny-dream"], stages=(Stage("full", 0),))
    training = Training(recipe, tmp_path / "work")
    training.run()
    ancestor = load_file(FOLDER.parent / recipe.ancestor / "model.safetensors")
    for name, weight in training.model.state_dict().items():
        assert torch.equal(weight, ancestor[name].float()), name


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda folder: (folder / "model.safetensors").unlink(), "no \\*.safetensors"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\x10" * 64), "cannot read the checkpoint"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "no tokenizer that can be read"),
        (
            lambda folder: (folder / "config.json").write_text(
                (FOLDER / "config.json").read_text().replace('"block_size": 16', '"block_size": 8')
            ),
            "block_size 8",
        ),
    ],
)
def test_an_unreadable_checkpoint_is_one_line(tmp_path: Path, damage: Callable[[Path], object], says: str) -> None:
    folder = tmp_path / "checkpoint"
    shutil.copytree(FOLDER, folder)
    damage(folder)
    with pytest.raises(UserError, match=says) as error:
        load.load(replace(SPEC, source=str(folder)))
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)
