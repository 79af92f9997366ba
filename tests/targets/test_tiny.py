"""The shipped tiny target and its training."""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, Qwen3ForCausalLM

import drafters
import tasks.harness
from suite.decoding.decode import decode
from suite.decoding.policy import Policy
from suite.errors import UserError
from suite.targets import catalog, load
from suite.targets.tiny import train
from suite.targets.tiny.card import TASKS
from suite.targets.tiny.train import RECIPES, Recipe, Training, block_causal_batch

SPEC = catalog.spec("tiny-sdar-b16")
FOLDER = Path(SPEC.source)


def test_it_is_an_ordinary_small_hugging_face_checkpoint() -> None:
    assert (FOLDER / "model.safetensors").stat().st_size < 3e6
    model = Qwen3ForCausalLM.from_pretrained(FOLDER, dtype="auto")
    assert model.dtype == torch.float16
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    assert len(tokenizer) == model.config.vocab_size == SPEC.vocab_size
    assert (tokenizer.mask_token_id, tokenizer.pad_token_id) == (SPEC.mask_id, SPEC.pad_id)
    assert {tokenizer.eos_token_id, tokenizer.pad_token_id} == SPEC.stop_ids
    assert not list(FOLDER.glob("*.py")), "no code beside the weights"


def test_its_card_holds_every_bar_and_its_recipe_is_the_one_in_the_code() -> None:
    card = (FOLDER / "README.md").read_text()
    assert card.count("| yes |") == 6
    assert "**no**" not in card
    training = json.loads((FOLDER / "training.json").read_text())
    assert Recipe(**training["recipe"]) == RECIPES[SPEC.name]
    assert training["steps"] == RECIPES[SPEC.name].causal_steps + RECIPES[SPEC.name].diffusion_steps


@pytest.mark.parametrize("name", TASKS)
def test_it_can_do_its_tasks(name: str) -> None:
    target, task = load.load(SPEC), tasks.harness.load(name)
    scores = []
    for request in task.requests(target.chat, 8):
        policy = Policy(SPEC.block_size, task.max_new_tokens)
        done = decode(target, target.encode(request.prompt), policy, drafters.make("none"))
        text = tasks.harness.cut(target.decode(done.tokens), request.until)
        scores.append(task.score(request.doc_id, text)[task.metric])
    assert sum(scores) / len(scores) >= 0.5


SMALL = Recipe(
    "Qwen3ForCausalLM",
    block=4,
    hidden=16,
    layers=1,
    heads=2,
    kv_heads=1,
    intermediate=16,
    batch=2,
    causal_steps=2,
    diffusion_steps=2,
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
    assert again.step == SMALL.causal_steps
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
