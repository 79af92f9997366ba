"""SPOT and SPOT-Sets: what the network reads, what is searched, and that training takes up where it stopped."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drafters import spot_sets
from drafters.base import STALE_TOKENS, DraftView
from drafters.best_first import BestFirst
from drafters.calibration import calibrate, write
from drafters.examples import HELD_OUT, collect, examples
from drafters.search import best_first
from drafters.spot import FEATURES, FILLED_AT, HELD_AT, LIKE_AT, OPEN_AT, Reader, Spot, SpotConfig, SpotNetwork
from drafters.spot_sets import SpotSets, commit_sets, platt
from drafters.training import Recipe, Training, _draw
from suite import trace
from suite.decoding.decode import decode
from suite.decoding.policy import Policy
from suite.decoding.state import MASK, State, masked
from suite.errors import UserError
from suite.trace import Trace
from tests.suite.test_trace import CELL, TASK, made_header, request
from tests.toy import ToyTarget

SMALL = Recipe(steps=6, batch=8, warm_up=2, dropout=0.1)


def network(seed: int = 0) -> SpotNetwork:
    torch.manual_seed(seed)
    made = SpotNetwork(SpotConfig(slots=8, width=16, heads=2, feed_forward=16, layers=2))
    torch.nn.init.normal_(made.head.weight, std=0.5)
    return made.eval()


def views(rule: str = "exact", temperature: float = 0.0) -> list[DraftView]:
    toy = ToyTarget(size=6, vocabulary=40, smooth=0.8)
    one = trace.record_one(made_header(toy, rule, temperature), toy, request(1))
    policy = made_header(toy, rule, temperature).policy
    return [step.view(step.after, policy, one.seed) for step in one.steps if step.after.count(MASK) > 1]


def test_the_network_has_the_papers_size() -> None:
    assert sum(p.numel() for p in SpotNetwork().parameters()) == pytest.approx(0.62e6, rel=0.05)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_what_was_filled_before_the_stale_pass_may_be_left_out(temperature: float) -> None:
    made = network()
    for view in views(temperature=temperature):
        open_ = masked(view.before)
        states = [view.state, *Spot(network=made).propose(view, 4)]
        inputs = Reader(view)(states)
        assert inputs.shape == (len(states), 6, FEATURES)
        assert bool(inputs.isfinite().all())
        assert (inputs[..., OPEN_AT] > 0).tolist() == [[token == MASK for token in state] for state in states]
        slots = torch.tensor(open_)
        torch.testing.assert_close(made(inputs)[:, slots], made(inputs[:, slots], slots), atol=1e-5, rtol=1e-5)


def test_the_network_sees_what_was_committed_last() -> None:
    """What a commit changes is near it; a position that had been filled for long looks otherwise."""
    for view in views():
        (inputs,) = Reader(view)([view.state])
        (last,) = set(masked(view.before)) - set(masked(view.state))
        assert inputs[:, FILLED_AT].nonzero()[:, 0].tolist() == [i for i in range(6) if view.before[i] != MASK]
        assert inputs[last, OPEN_AT] == 0
        assert inputs[last, :STALE_TOKENS].count_nonzero() > 0, "with what the pass said of it"


def test_the_drawn_token_is_the_coupled_one() -> None:
    """At a temperature the features change with the noise of the step; uncoupled ones and those at T = 0 do not."""
    view = views(temperature=1.0)[0]
    other = replace(view, seed=view.seed + 1)
    assert not Reader(view)([view.state]).equal(Reader(other)([view.state]))
    assert Reader(view, coupled=False)([view.state]).equal(Reader(other, coupled=False)([view.state]))
    cold = views()[0]
    assert Reader(cold)([cold.state]).equal(Reader(replace(cold, seed=9))([cold.state]))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_network_sees_which_positions_want_the_same_token(temperature: float) -> None:
    for view in views(temperature=temperature):
        chances = torch.zeros(6, 40).scatter_(-1, view.token_ids, view.log_probs.exp())
        chances[[token != MASK for token in view.before]] = 0  # of those the pass said nothing
        states = [view.state, *Spot(network=network()).propose(view, 4)]
        inputs = Reader(view)(states)
        for state, read in zip(states, inputs, strict=True):
            for i in masked(view.before):
                alike = [float((chances[i] * chances[j]).sqrt().sum()) if i != j else 0.0 for j in range(6)]
                new = [j for j in range(6) if state[j] != MASK and view.before[j] == MASK]
                held = [float(chances[i, state[j]]) if j in new and state[i] == MASK else 0.0 for j in range(6)]
                for at, pairs in ((LIKE_AT, alike), (HELD_AT, held)):
                    beside = [pairs[i - 1] if i > 0 else 0.0, pairs[i + 1] if i < 5 else 0.0]
                    assert read[i, at : at + 3].tolist() == pytest.approx([*beside, max(pairs)], abs=1e-5)


def test_an_untrained_network_drafts_in_the_order_of_best_first() -> None:
    made = SpotNetwork()
    for view in views():
        own, plain = (d.propose(view, 1) for d in (Spot(network=made), BestFirst()))
        assert own == plain


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(("kind", "rule"), [(Spot, "exact"), (SpotSets, "threshold(0.5)")])
def test_drafts_change_the_passes_and_nothing_else(kind: type[Spot], rule: str, temperature: float) -> None:
    toy = ToyTarget(size=6, vocabulary=12, smooth=0.9)
    header = made_header(toy, rule, temperature)
    fewer = 0
    for doc_id in range(4):
        one = trace.record_one(header, toy, request(doc_id))
        for coupled, rows in itertools.product((True, False), (2, 5, 17)):
            drafter = kind(coupled, network())
            live = decode(toy, toy.encode(request(doc_id).prompt), header.policy, drafter, rows, one.seed)
            assert live.visits == one.visits
            replayed = trace.replay(one, header, kind(coupled, network()), rows)
            assert [(p.rows, p.depth) for p in replayed] == [(p.rows, p.depth) for p in live.passes]
            fewer += len(one.steps) - len(live.passes)
    assert fewer > 0


def test_fewer_rows_are_the_first_of_more() -> None:
    for kind, rule in ((Spot, "exact"), (SpotSets, "threshold(0.5)")):
        for view in views(rule):
            most = kind(network=network()).propose(view, 20)
            for rows in range(20):
                assert kind(network=network()).propose(view, rows) == most[:rows]


@settings(max_examples=40)
@given(
    chances=st.lists(st.lists(st.floats(0.01, 1), min_size=3, max_size=3), min_size=4, max_size=4),
    together=st.integers(1, 5),
)
def test_the_search_does_not_depend_on_how_many_states_are_asked_about_at_once(
    chances: list[list[float]], together: int
) -> None:
    def children(states: Sequence[State]) -> list[list[tuple[State, float]]]:
        return [
            [(tuple(sorted((*state, n))), chances[len(state)][n] / sum(chances[len(state)])) for n in range(3)]
            if len(state) < 4
            else []
            for state in states
        ]

    assert best_first((), 9, children, together) == best_first((), 9, children, 1)


@settings(max_examples=60)
@given(st.lists(st.floats(-4, 4), min_size=1, max_size=5))
def test_commit_sets_are_the_likeliest_of_all(logits: list[float]) -> None:
    p = [1 / (1 + math.exp(-x)) for x in logits]
    true: dict[tuple[int, ...], float] = {}
    for bits in itertools.product([0, 1], repeat=len(p)):
        chance = math.prod(q if bit else 1 - q for q, bit in zip(p, bits, strict=True))
        chosen = tuple(n for n, bit in enumerate(bits) if bit)
        true[chosen] = true.get(chosen, 0) + chance
    empty, odds = true.pop(()), [math.exp(x) for x in logits]
    for n, weight in enumerate(odds):
        true[(n,)] += empty * weight / sum(odds)
    every = list(commit_sets(logits, 40))
    assert {tuple(chosen): pytest.approx(chance) for chosen, chance in every} == true
    assert sum(chance for _, chance in every) == pytest.approx(1)
    assert [chance for _, chance in every] == sorted((chance for _, chance in every), reverse=True)


def test_a_calibration_finds_the_scale_and_the_bias() -> None:
    torch.manual_seed(0)
    logits = torch.randn(20000) * 3
    commits = torch.rand(20000) < torch.sigmoid(0.5 * logits - 1)
    assert platt(logits, commits) == pytest.approx((0.5, -1.0), abs=0.1)


def recorded(root: Path, split: str = "train", rule: str = "exact", prompts: int = 12) -> Trace:
    toy = ToyTarget(size=6, vocabulary=40, smooth=0.8)
    header = replace(made_header(toy, rule), split=split)
    made = trace.open_trace(root, replace(CELL, rule=rule), split, header)
    trace.record(made, toy, [request(n) for n in range(prompts)], TASK)
    return made


@pytest.mark.parametrize("rule", ["exact", "threshold(0.5)"])
def test_an_interrupted_training_ends_where_an_undisturbed_one_does(tmp_path: Path, rule: str) -> None:
    data = collect([recorded(tmp_path, rule=rule)], SMALL.reach)
    assert data.sets == (rule != "exact")
    whole = Training(SMALL, data, tmp_path / "whole")
    whole.run()

    def stop(step: int, known: dict[str, float]) -> None:
        if step == 3:
            raise KeyboardInterrupt

    cut = Training(SMALL, data, tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        cut.run(stop)
    cut._save()
    again = Training(SMALL, data, tmp_path / "cut")
    assert again.step == 3
    again.run()
    for name, weight in whole.network.state_dict().items():
        assert torch.equal(weight, again.network.state_dict()[name]), name
    with pytest.raises(UserError, match="another recipe or other traces"):
        Training(replace(SMALL, rate=1.0), data, tmp_path / "cut")


def test_examples_are_scored_alike_with_and_without_what_was_filled(tmp_path: Path) -> None:
    (part,) = collect([recorded(tmp_path)], SMALL.reach).train
    made, rows = network(), torch.arange(len(part.depth))
    whole = {tuple(x.flatten().tolist()): made(x[None])[0] for x in part.inputs.float()}
    seen = 0
    for batch in part.batches(rows, 5):
        assert batch.inputs.shape[1] == int((batch.inputs[..., FILLED_AT] == 0).sum(-1).max())
        scores = made(batch.inputs, batch.slots)
        for n, slots in enumerate(batch.slots):
            found = [full for key, full in whole.items() if torch.tensor(key).view(6, -1)[slots].equal(batch.inputs[n])]
            open_ = batch.inputs[n, :, FILLED_AT] == 0
            assert any(torch.allclose(full[slots][open_], scores[n][open_], atol=1e-5) for full in found)
            assert not batch.commits[n][~open_].any()
            seen += 1
    assert seen == len(rows)


def test_dropout_is_for_training_alone(tmp_path: Path) -> None:
    run = Training(SMALL, collect([recorded(tmp_path)], SMALL.reach), tmp_path / "work")
    inputs = run.data.train[0].inputs[:4].float()
    run.run()
    run.network.train()
    assert not run.network(inputs).equal(run.network(inputs))
    run.export(tmp_path / "out", "spot")
    saved = SpotNetwork.from_pretrained(tmp_path / "out")
    assert saved(inputs).equal(saved(inputs))


def test_training_learns_an_order(tmp_path: Path) -> None:
    data = collect([recorded(tmp_path, prompts=40)], SMALL.reach)
    run = Training(Recipe(steps=60, batch=64, warm_up=5), data, tmp_path / "work")
    before = run.accuracy()[0]
    run.run()
    assert run.accuracy()[0] > before


def test_scores_are_as_sure_as_held_out_prompts_bear_out(tmp_path: Path) -> None:
    run = Training(
        Recipe(steps=60, batch=64, warm_up=5), collect([recorded(tmp_path, prompts=40)], SMALL.reach), tmp_path
    )
    run.run()
    ranked = run.accuracy()
    run.temper()
    assert run.temper() == pytest.approx((1.0, 1.0), abs=0.01)
    with torch.no_grad():
        for weight in (run.network.head.weight, run.network.head.bias, run.network.prior):
            weight *= 5
    assert run.temper() == pytest.approx((0.2, 0.2), rel=0.01)
    assert run.accuracy() == ranked, "the likeliest one stays the likeliest"


def test_what_is_saved_drafts_the_same(tmp_path: Path) -> None:
    run = Training(SMALL, collect([recorded(tmp_path)], SMALL.reach), tmp_path / "work")
    run.run()
    run.export(tmp_path / "out", "spot")
    again = SpotNetwork.from_pretrained(tmp_path / "out")
    half = {name: weight.half().float() for name, weight in run.network.state_dict().items()}
    assert all(weight.equal(half[name]) for name, weight in again.state_dict().items())
    card = (tmp_path / "out" / "README.md").read_text()
    for said in ("Home target: toy", "sums", "temperatures: 0", "block sizes: 6", "seed 0", "Next-commit accuracy"):
        assert said in card
    (tmp_path / "out" / "model.safetensors").write_bytes(b"\x10" * 20)
    with pytest.raises(UserError, match="no drafter network that can be read"):
        SpotNetwork.from_pretrained(tmp_path / "out")


def test_evaluation_prompts_are_never_trained_on(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="of the test split; drafters are trained on the train split only"):
        collect([recorded(tmp_path, "test")], SMALL.reach)
    with pytest.raises(UserError, match="train on one rule"):
        collect([recorded(tmp_path), recorded(tmp_path, rule="threshold(0.5)")], SMALL.reach)
    with pytest.raises(UserError, match="too little to train on in 0 prompts"):
        collect([], SMALL.reach)


@pytest.mark.parametrize("rule", ["exact", "threshold(0.0001)"])
def test_traces_that_teach_nothing_are_refused_in_a_line(tmp_path: Path, rule: str) -> None:
    made = recorded(tmp_path, rule=rule, prompts=2 if rule == "exact" else 12)
    with pytest.raises(UserError, match="too little to train on in 1?2 prompts, of which one in 10 is held out"):
        collect([made], SMALL.reach)
    if rule != "exact":
        with pytest.raises(UserError, match="no block of these traces takes two steps"):
            spot_sets.fit([(made.header, made.read(n)) for n in made.doc_ids()], network())


def test_examples_are_drawn_by_their_weights() -> None:
    torch.manual_seed(0)
    weights = torch.tensor([0.0, 1.0, 3.0, 0.0], dtype=torch.float64)
    drawn = _draw(weights, 8000).bincount(minlength=4)
    assert drawn[[0, 3]].tolist() == [0, 0]
    assert drawn[2] / drawn[1] == pytest.approx(3, rel=0.1)


def test_a_block_without_room_is_refused(tmp_path: Path) -> None:
    drafter = Spot(network=network())
    drafter.attach("toy", Policy(block_size=8, max_new_tokens=8))
    with pytest.raises(UserError, match="spot drafts blocks of up to 8 positions; toy has 9"):
        drafter.attach("toy", Policy(block_size=9, max_new_tokens=9))
    data = collect([recorded(tmp_path)], SMALL.reach)
    data.source["block_sizes"] = [6, 65]
    with pytest.raises(UserError, match="blocks of 65 positions; the network has room for 64"):
        Training(SMALL, data, tmp_path / "work")


def test_a_calibration_is_of_the_weights_it_was_fitted_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recorded(tmp_path, rule="threshold(0.5)")
    monkeypatch.setattr(spot_sets, "network_of", lambda folder: network())
    fitted = calibrate([(made.header, made.read(n)) for n in made.doc_ids()])
    monkeypatch.setenv("SPOTBENCH_CALIBRATIONS", str(tmp_path))
    write(fitted, tmp_path)
    drafter = SpotSets(network=network())
    drafter.attach("toy", made.header.policy)
    assert (drafter.scale, drafter.bias) == (fitted.scale, fitted.bias)
    write(replace(fitted, network="another"), tmp_path)
    with pytest.raises(UserError, match=r"fits other weights of spot-sets; spotbench calibrate --target toy"):
        drafter.attach("toy", made.header.policy)
    plain = recorded(tmp_path / "exact")
    write(calibrate([(plain.header, plain.read(n)) for n in plain.doc_ids()]), tmp_path)
    drafter.attach("toy", plain.header.policy)
    assert (drafter.scale, drafter.bias) == (1.0, 0.0)


def test_held_out_prompts_are_held_out(tmp_path: Path) -> None:
    made = recorded(tmp_path, prompts=40)
    held = [n for n in made.doc_ids() if int(made.read(n).prompt_hash, 16) % HELD_OUT == 0]
    assert 0 < len(held) < 20
    data = collect([made], SMALL.reach)
    views_held = sum(len(e[3]) for n in held for e in examples(made.read(n), made.header, SMALL.reach))
    assert sum(len(part.depth) for part in data.held_out) == views_held
