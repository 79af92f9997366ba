"""Cells that kill their process: blamed, held back from the others, given up."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from suite import deaths, runner
from suite.cells import Bundle
from suite.store import Store
from tests.slurm import toys
from tests.suite.tiny_grid import finish, made_bundle, made_cell, made_sample

BUNDLE = made_bundle("chain", "oracle", "random")
BASELINE, CHAIN, ORACLE, RANDOM = BUNDLE.cells


def ends(store: Store, how: Callable[[], object]) -> None:
    """A process that is at CHAIN, then at ORACLE, and then ends."""
    child = os.fork()
    if not child:
        try:
            with store.watch(BUNDLE, f"p{os.getpid()}") as at:
                at(CHAIN)
                at(ORACLE)
                how()
        finally:
            os._exit(1)
    os.waitpid(child, 0)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail() -> None:
    raise ValueError


def terminate_then_kill() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    kill()


@pytest.mark.parametrize(
    ("how", "blamed"),
    [(lambda: os._exit(3), {ORACLE.id: 1}), (kill, {ORACLE.id: 1}), (fail, {}), (terminate_then_kill, {})],
    ids=["exit", "kill", "exception", "told to end"],
)
def test_who_is_to_blame(tmp_path: Path, how: Callable[[], object], blamed: dict[str, int]) -> None:
    ends(Store(tmp_path), how)
    assert Store(tmp_path).deaths(BUNDLE) == blamed


def died(store: Store, *cells: str) -> None:
    for n, cell in enumerate(cells):
        folder = store._partial(BUNDLE)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{n}.at").write_text(cell + "\n")


def test_suspects_run_last_and_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    died(store, CHAIN.id, ORACLE.id, CHAIN.id)
    assert runner.turns_of(BUNDLE, store) == [[BASELINE, RANDOM], [CHAIN], [ORACLE]]


def test_a_cell_is_given_up_and_its_neighbours_are_not(tmp_path: Path) -> None:
    store = Store(tmp_path)
    died(store, *[CHAIN.id] * deaths.LIMIT)
    for _ in range(2):
        assert runner.turns_of(BUNDLE, store) == [[BASELINE, ORACLE, RANDOM]]
    (failure,) = store.failed(CHAIN)
    assert failure.line.startswith("GivenUpError: it killed 3 processes")
    store.forget_deaths(BUNDLE, [CHAIN.id])
    assert runner.turns_of(BUNDLE, store) == [[*BUNDLE.cells]]


def test_a_cell_that_gets_on_between_two_deaths_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something else kills a process now and then, say for want of memory."""
    mortal = tmp_path / "mortal.py"
    mortal.write_text(
        "import os\nfrom drafters import Drafter\n\n\nclass Mortal(Drafter):\n    prompts = 0\n\n"
        "    def start(self, future):\n        self.prompts += 1\n        if self.prompts == 3:\n"
        "            os._exit(9)\n\n    def propose(self, view, rows):\n        return []\n"
    )
    monkeypatch.setattr(runner.load, "load", toys.load)
    monkeypatch.setattr("tasks.harness.load", lambda name: toys.ToyTask())
    name, store = f"{mortal}:Mortal", Store(tmp_path / "results")
    cells = tuple(made_cell(drafter, prompts=6) for drafter in ("none", name))
    bundle = Bundle(cells[0], cells, files=((name, name),))
    for prompt in range(1, 6):  # the warm-up is its first, a prompt the second, the third is its last
        child = os.fork()
        if not child:
            try:
                runner.run_bundle(bundle, store, False, lambda *_: None)
            finally:
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        assert len({visit.doc_id for visit in store.visits(bundle) if cells[1].id in visit.samples}) == prompt
        assert store.deaths(bundle)[cells[1].id] == 1
    assert runner.run_bundle(bundle, store, False, lambda *_: None)


def test_a_bundle_whose_baseline_kills_is_given_up(tmp_path: Path) -> None:
    store = Store(tmp_path)
    died(store, *[BASELINE.id] * (deaths.LIMIT - 1))
    assert runner.turns_of(BUNDLE, store) == [[*BUNDLE.cells]], "without the baseline there is nothing to run"
    died(store, *[BASELINE.id] * deaths.LIMIT)
    assert runner.turns_of(BUNDLE, store) == []
    assert all(store.failed(cell) for cell in BUNDLE.cells)


def test_what_is_done_or_left_out_is_not_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, CHAIN, [made_sample()])
    assert runner.turns_of(BUNDLE, store, {ORACLE.id}) == [[BASELINE, RANDOM]]
    assert runner.turns_of(Bundle(CHAIN, (CHAIN,)), store) == []
