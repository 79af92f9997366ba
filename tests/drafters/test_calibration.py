"""Calibration: what is counted, what is chosen of it, and the file it is kept in."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafters import calibration
from drafters.calibration import Calibration, Paths, accumulate, calibrate, count, cover, reached
from drafters.formulas import Fill, Formula, pairs
from suite.decoding.policy import Policy
from suite.decoding.rules import Threshold
from suite.errors import UserError
from suite.targets import catalog, checkpoint
from tests.drafters.traces import TRAIN, toy_header, toy_traces, walked
from tests.suite.tiny_grid import spotbench

LAWS = [[0.2, 0.8], [0.95, 0.05], [0.6, 0.4], [0.9, 0.1]]
"""By confidence: position 1, then 3, then 0, then 2."""
A, B, C = ((0, 0),), ((1, 0),), ((2, 0),)


def test_a_path_is_told_in_ranks_of_the_pass_before_it() -> None:
    """After position 1, the open ones rank 3, 0, 2. What completes the block is no state to draft."""
    one = walked(LAWS, [[(1, 0)], [(0, 1)], [(3, 0)], [(2, 0)]])
    assert count([(TRAIN, one)]) == {(B, A): 1, (A,): 1, (): 1}
    assert count([(TRAIN, one)], steps_ahead=1) == {(B,): 1, (A,): 1, (): 1}


def test_a_token_is_told_by_its_rank() -> None:
    one = walked(LAWS, [[(1, 0)], [(0, 0)], [(3, 0)], [(2, 0)]])
    assert count([(TRAIN, one)]) == {(((1, 1),), A): 1, (A,): 1, (): 1}


def test_a_path_ends_before_a_token_beyond_the_ranks() -> None:
    law = [0.4, 0.3, 0.15, 0.1, 0.05]
    for token, path in [(3, (A, ((1, 3),))), (4, (A,))]:
        one = walked([law] * 4, [[(3, 0)], [(0, 0)], [(1, token)], [(2, 0)]])
        assert path in count([(TRAIN, one)])


def test_a_step_of_several_positions_is_one_step_of_a_path() -> None:
    one = walked([*LAWS, [0.5, 0.5]], [[(1, 0)], [(3, 0), (0, 1)], [(2, 0)], [(4, 0)]])
    header = replace(TRAIN, rule="threshold(0.7)", block_size=5)
    assert count([(header, one)]) == {(((0, 0), (1, 0)), C): 1, (A,): 1, (): 1}


PATHS: Paths = Counter({(A, B): 4, (B, A): 3, (C,): 5, (A, C): 1, (): 7})
"""Counts: A 5, B 3, C 5, AB 7 (after A 4, after B 3), AC 1 (after A)."""


def test_degree_one_accumulation_by_hand() -> None:
    """Scores: A 5, C 5, B 3, AB 7 + 5 + 3, AC 1 + 5. A before C, which ties, by the lower pair."""
    assert accumulate(PATHS) == [(A,), (A, B), (A, C), (C,), (B,)]


def test_coverage_by_hand() -> None:
    """Gains: A 5, C 5; then AB 4; then B 3, each of which goes on to AB; then AC 1."""
    assert cover(PATHS) == [(A,), (C,), (A, B), (B,), (A, C)]


def test_what_is_reached_counts_only_states_in_a_row() -> None:
    assert reached([(A,)], PATHS) == pytest.approx(5 / 20)
    assert reached([(A,), (A, B)], PATHS) == pytest.approx(9 / 20), "B was not there when AB came after it"
    assert reached(cover(PATHS), PATHS) == pytest.approx((8 + 6 + 5 + 2) / 20)


fills = st.sets(st.tuples(st.integers(0, 3), st.just(0)), min_size=1, max_size=2).map(lambda s: tuple(sorted(s)))


def _path(steps: list[Fill]) -> Formula:
    """The steps without the pairs that an earlier one filled."""
    done: set[tuple[int, int]] = set()
    path = []
    for step in steps:
        if fresh := tuple(pair for pair in step if pair not in done):
            path.append(fresh)
            done |= set(fresh)
    return tuple(path)


paths_ = st.dictionaries(st.lists(fills, max_size=4).map(_path), st.integers(1, 9), max_size=12).map(Counter)


@given(paths=paths_, most=st.integers(1, 12))
def test_the_first_of_a_longer_list_are_a_connected_graph(paths: Paths, most: int) -> None:
    for choose in (accumulate, cover):
        longer = choose(paths)
        assert choose(paths, most) == longer[:most]
        assert len({pairs(formula) for formula in longer}) == len(longer)
        assert all(formula[:-1] in [(), *longer[:n]] for n, formula in enumerate(longer))


@given(paths=paths_)
def test_all_that_was_recorded_is_chosen_in_the_end(paths: Paths) -> None:
    depth = sum(len(path) * passes for path, passes in paths.items())
    for choose in (accumulate, cover):
        assert reached(choose(paths), paths) == pytest.approx(depth / max(1, paths.total()))


@pytest.mark.parametrize("rule", ["exact", "threshold(0.5)"])
def test_coverage_reaches_as_far_as_accumulation_at_every_size(rule: str) -> None:
    paths = count(toy_traces(toy_header(rule)))
    accumulated, covering = accumulate(paths), cover(paths)
    gained = [reached(covering[:n], paths) - reached(accumulated[:n], paths) for n in range(1, 65)]
    assert min(gained) >= 0
    assert max(gained) > 0


def made(temperature: float = 0.0, rule: str = "exact") -> Calibration:
    return calibrate(toy_traces(toy_header(rule, temperature), 4))


def test_a_calibration_says_what_it_was_counted_on() -> None:
    traces = toy_traces(toy_header(), 3)
    one = calibrate([*traces, *((replace(header, task="words", seed=5), prompt) for header, prompt in traces)])
    assert (one.target, one.weights, one.rule, one.temperature) == ("toy", "w", "exact", 0.0)
    assert (one.tasks, one.split, one.seeds, one.prompts) == (("sums", "words"), "train", (3, 5), 6)
    assert one.passes == count(traces).total() * 2
    assert one.accumulated == tuple(accumulate(count(traces)))


def test_evaluation_items_are_refused() -> None:
    (header, one), *_ = toy_traces(toy_header(), 1)
    with pytest.raises(UserError, match="toy on sums is of the test split; calibrate on the train split"):
        calibrate([(header, one), (replace(header, split="test"), one)])


@pytest.mark.parametrize("changed", [{"weights": "x"}, {"rule": "threshold(0.9)"}, {"temperature": 1.0}])
def test_traces_of_two_kinds_are_refused(changed: dict[str, object]) -> None:
    (header, one), *_ = toy_traces(toy_header(), 1)
    with pytest.raises(UserError, match="one target, rule and temperature"):
        calibrate([(header, one), (replace(header, **changed), one)])  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no traces"):
        calibrate([])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(calibration.FOLDER, str(tmp_path / "mine"))
    return tmp_path / "mine"


@pytest.mark.parametrize("rule", ["exact", "threshold(0.5)"])
def test_what_is_read_is_what_was_written(home: Path, rule: str) -> None:
    one = made(rule=rule)
    path = calibration.write(one, home)
    assert calibration.read(path, "toy", rule, 0.0) == one
    assert calibration.write(one, home) == path


def test_a_calibration_at_no_temperature_serves_at_all_until_there_is_one_for_it(home: Path) -> None:
    cold, warm = Policy(6, 14), Policy(6, 14, temperature=1.0)
    calibration.write(made(), home)
    assert calibration.find("toy", warm) == calibration.find("toy", cold) == made()
    calibration.write(made(1.0), home)
    assert calibration.find("toy", warm) == made(1.0)
    assert calibration.find("toy", cold) == made()


def test_the_users_own_comes_before_the_shipped_one(home: Path) -> None:
    policy = Policy(16, 64)
    shipped = calibration.find("tiny-sdar-b16", policy)
    calibration.write(replace(shipped, weights="mine"), home)
    assert calibration.find("tiny-sdar-b16", policy).weights == "mine"


def test_none_is_one_line_that_says_how_to_make_it(home: Path) -> None:
    with pytest.raises(UserError, match=r"spotbench calibrate --target toy --rule 'threshold\(0\.7\)'"):
        calibration.find("toy", Policy(6, 14, Threshold(0.7)))


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-9],
        lambda text: "",
        lambda text: "[]",
        lambda text: text.replace('"version": 1', '"version": 9'),
        lambda text: text.replace('"toy"', '"joy"'),
        lambda text: text.replace('"seeds"', '"seed"'),
        lambda text: json.dumps(json.loads(text) | {"covering": [[[[0, 0]], [[1, 0]]]]}),
        lambda text: json.dumps(json.loads(text) | {"covering": [[[[16, 0]]]]}),
        lambda text: json.dumps(json.loads(text) | {"covering": [[[[0, 4]]]]}),
        lambda text: json.dumps(json.loads(text) | {"covering": [[[[0, "x"]]]]}),
        lambda text: json.dumps(json.loads(text) | {"covering": [[[]]]}),
        lambda text: json.dumps(json.loads(text) | {"covering": [[]]}),
        lambda text: json.dumps(json.loads(text) | {"covering": [[[[0, 0], [0, 1]]]]}),
        lambda text: json.dumps(json.loads(text) | {"covering": 3}),
    ],
)
def test_a_damaged_file_is_one_line(home: Path, damage: object) -> None:
    path = calibration.write(made(), home)
    path.write_text(damage(path.read_text()))  # type: ignore[operator]
    with pytest.raises(UserError, match="toy.exact.json: not a calibration .* spotbench calibrate") as error:
        calibration.find("toy", Policy(6, 14))
    assert "\n" not in str(error.value)


SHIPPED = sorted(calibration.SHIPPED.glob("*.json"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_shipped_calibration_is_of_the_shipped_weights(path: Path) -> None:
    found = json.loads(path.read_text())
    one = calibration.read(path, found["target"], found["rule"], found["temperature"])
    assert path.name == calibration.file_name(one.target, one.rule, one.temperature)
    assert one.weights == checkpoint.weights_hash(catalog.spec(one.target))
    assert one.split == "train"
    assert len(one.accumulated) == len(one.covering) == calibration.MOST


def test_the_verb_records_calibrates_and_says_where(home: Path, tmp_path: Path) -> None:
    ask = ["calibrate", "--target", "tiny-sdar-b16", "--rule", "threshold(.8)", "--prompts", "2", "--task", "tiny-gsm"]
    ran = spotbench(*ask, "--traces", tmp_path / "traces")
    assert ran.code == 0, ran.err
    assert "2 train prompts" in ran.out
    one = calibration.find("tiny-sdar-b16", Policy(16, 64, Threshold(0.8)))
    assert (one.rule, one.tasks, one.prompts) == ("threshold(0.8)", ("tiny-gsm",), 2)
    assert [folder.name.split(".")[-1] for folder in (tmp_path / "traces").iterdir()] == ["train"]


def test_the_verb_refuses_what_is_none(home: Path, tmp_path: Path) -> None:
    for wrong in (["--rule", "best"], ["--task", "gsm9k"], ["--target", "sdar"]):
        ran = spotbench("calibrate", "--target", "tiny-sdar-b16", "--traces", tmp_path / "traces", *wrong)
        assert (ran.code, ran.err.strip().count("\n")) == (2, 0), ran.err
