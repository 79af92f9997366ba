"""What is submitted, and how cells are told to stand: without a Slurm."""

import contextlib
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from unittest import mock

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from slurm import ledger, queue
from slurm.cluster import Cluster
from slurm.queue import Job, Queue, QueueError
from slurm.submit import plan, split
from slurm.survey import State, survey
from suite import deaths
from suite.cells import Bundle
from suite.errors import UserError
from suite.grid import Grid
from suite.store import Store
from tests.suite.tiny_grid import finish, made_sample

SITE = Cluster.model_validate({"name": "site", "targets": {"tiny-sdar-b8": {"gpus": 2}}})


def grid_of(**changes: object) -> Grid:
    return Grid.model_validate(
        {
            "name": "tiny", "targets": ["tiny-sdar-b16"], "tasks": ["tiny-gsm"], "temperatures": [0.0],
            "drafters": ["chain", "oracle"], "rows": [3], "prompts": 1, "seeds": [0, 1],
        } | changes
    )  # fmt: skip


@hypothesis.settings(max_examples=30)
@hypothesis.given(
    seeds=st.integers(1, 30), longest=st.integers(1, 8), room=st.integers(0, 70), two=st.booleans(), data=st.data()
)
def test_arrays_hold_every_bundle_once_longest_first(
    seeds: int, longest: int, room: int, two: bool, data: st.DataObject
) -> None:
    targets = ["tiny-sdar-b16", "tiny-sdar-b8"] if two else ["tiny-sdar-b16"]
    bundles = grid_of(targets=targets, seeds=list(range(seeds))).bundles()
    cells = {
        bundle.id: frozenset(cell.id for cell in bundle.cells[: data.draw(st.integers(1, 3))]) for bundle in bundles
    }
    chunks, later = split(bundles, cells, SITE, longest, room)
    taken = [bundle for chunk in chunks for bundle in chunk.bundles]
    assert len(set(taken)) == len(taken) == min(room, len(bundles)) == len(bundles) - later
    for chunk in chunks:
        assert len(chunk.bundles) <= longest
        sizes = [len(chunk.cells[bundle.id]) for bundle in chunk.bundles if chunk.targets == [bundle.baseline.target]]
        assert sizes == sorted(sizes, reverse=True)
        assert len(chunk.targets) == 1, "two targets that ask for other GPUs share no array"
    left = [len(cells[bundle.id]) for bundle in bundles if bundle not in taken]
    if left and not two:
        assert max(left) <= min((len(cells[bundle.id]) for bundle in taken), default=3)


def test_bundles_that_cost_more_come_first() -> None:
    bundles = grid_of(tasks=["tiny-gsm", "tiny-math"], seeds=[0]).bundles()
    cells = {bundle.id: frozenset(cell.id for cell in bundle.cells) for bundle in bundles}
    cells[bundles[0].id] = frozenset([bundles[0].id])
    (chunk,), _ = split(bundles, cells, SITE, 10, 10)
    assert chunk.bundles == (bundles[1], bundles[0])
    assert chunk.wanted == 4
    assert chunk.most_hours == 2


class Sweep(RuleBasedStateMachine):
    """Whatever happens to jobs and results: what is at work or done is never submitted, and nothing is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = Store(self.folder)
        self.grid = grid_of()
        self.bundles = self.grid.bundles()
        self.queue: Queue | None = {}
        self.held: Queue = {}
        self.asked = 0
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(mock.patch.object(queue, "look", self.look))
        self.stack.enter_context(mock.patch.object(queue, "longest_array", lambda: 1000))

    def teardown(self) -> None:
        self.stack.close()
        shutil.rmtree(self.folder)

    def look(self, names: object) -> Queue:
        self.asked += 1
        if self.queue is None:
            raise QueueError("down")
        return self.queue

    def bundle(self, n: int) -> Bundle:
        return self.bundles[n]

    @rule(retry=st.booleans(), recorded=st.booleans())
    def submit(self, retry: bool, recorded: bool) -> None:
        """As `submit` does; `recorded`: or its process dies before it has written down the job."""
        if self.queue is None:
            with pytest.raises(UserError, match="down"):
                plan(self.grid, self.store, SITE, retry)
            return
        planned = plan(self.grid, self.store, SITE, retry)
        ids = [tuple(bundle.id for bundle in chunk.bundles) for chunk in planned.chunks]
        if not ids:
            return
        submission = ledger.new(self.folder, "tiny", "code", ids)
        for n, array in enumerate(submission.arrays):
            for index in range(len(array.bundles)):
                assert (array.name, index) not in self.queue
                self.queue[array.name, index] = Job(f"1_{index}", "PENDING", "", "")
            if recorded:
                submission = submission.submitted(n, "1")
        submission.write()

    @rule(n=st.integers(0, 3), state=st.sampled_from(["RUNNING", "PENDING", "COMPLETING", "REQUEUED", "SPECIAL_EXIT"]))
    def moves(self, n: int, state: str) -> None:
        self.change(n, state)

    @rule(n=st.integers(0, 3), state=st.sampled_from(sorted(queue.OVER)))
    def ends(self, n: int, state: str) -> None:
        self.change(n, state)

    def change(self, n: int, state: str) -> None:
        live = [key for key, job in (self.queue or {}).items() if job.live]
        if self.queue and live:
            self.queue[live[n % len(live)]] = Job("1_0", state, "n1", "")

    @rule()
    def queue_forgets(self) -> None:
        if self.queue is not None:
            self.queue = {key: job for key, job in self.queue.items() if job.live}

    @rule()
    def controller_goes_or_comes_back(self) -> None:
        if self.queue is None:
            self.queue = self.held
        else:
            self.held, self.queue = self.queue, None

    @rule(n=st.integers(0, 1), cell=st.integers(0, 2))
    def finishes(self, n: int, cell: int) -> None:
        finish(self.store, self.bundle(n).cells[cell], [made_sample()])

    @rule(n=st.integers(0, 1), cell=st.integers(0, 2))
    def fails(self, n: int, cell: int) -> None:
        self.store.fail(self.bundle(n).cells[cell], ValueError("x"), "")

    @rule(n=st.integers(0, 1), cell=st.integers(0, 2), times=st.integers(1, deaths.LIMIT))
    def kills(self, n: int, cell: int, times: int) -> None:
        folder = self.store._partial(self.bundle(n))
        folder.mkdir(parents=True, exist_ok=True)
        for k in range(times):
            (folder / f"{k}.at").write_text(self.bundle(n).cells[cell].id)

    @invariant()
    def every_cell_stands_somewhere(self) -> None:
        self.asked = 0
        found = survey(self.bundles, self.store)
        assert self.asked <= 1, "one call for all"
        assert set(found.states) == {cell.id for bundle in self.bundles for cell in bundle.cells}
        for bundle in self.bundles:
            live = found.live(bundle)
            for cell in bundle.cells:
                state = found.states[cell.id]
                assert (state == State.DONE) == self.store.done(cell)
                if live and state != State.DONE:
                    assert state in (State.RUNNING, State.PENDING)
                if self.queue is None:
                    assert state not in (State.LOST, State.RUNNING, State.PENDING)
                if state == State.FAILED:
                    died = self.store.deaths(bundle)
                    assert any(
                        self.store.failed(one) or died[one.id] >= deaths.LIMIT for one in (bundle.baseline, cell)
                    )

    @invariant()
    def all_that_is_not_at_work_done_or_failed_is_submitted(self) -> None:
        if self.queue is None:
            return
        found = survey(self.bundles, self.store)
        for retry in (False, True):
            chunks = plan(self.grid, self.store, SITE, retry).chunks
            cells = {cell for chunk in chunks for bundle in chunk.bundles for cell in chunk.cells[bundle.id]}
            open_ = {State.MISSING, State.LOST} | ({State.FAILED} if retry else set())
            assert cells == {cell for cell, state in found.states.items() if state in open_}


TestSweep = Sweep.TestCase
TestSweep.settings = hypothesis.settings(max_examples=25, stateful_step_count=20, deadline=None)


def test_only_what_failed_since_its_last_submission_counts(tmp_path: Path) -> None:
    store, bundle = Store(tmp_path), grid_of().bundles()[0]
    store.fail(bundle.cells[1], ValueError("x"), "")
    with mock.patch.object(queue, "look", lambda names: {}):
        assert survey([bundle], store).states[bundle.cells[1].id] == State.FAILED
        again = ledger.new(tmp_path, "tiny", "code", [(bundle.id,)]).submitted(0, "1")
        replace(again, id="9" + again.id).write()
        assert survey([bundle], store).states[bundle.cells[1].id] == State.LOST


def test_a_grid_of_gpus_needs_them(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="site: gpus: the grid runs tiny-sdar-b16 on cuda"):
        plan(grid_of(device="cuda"), Store(tmp_path), SITE, False)


def test_no_more_is_queued_than_the_site_allows(tmp_path: Path) -> None:
    site = SITE.model_copy(update={"max_queued": 3})
    with mock.patch.object(queue, "longest_array", lambda: 1000):
        planned = plan(grid_of(seeds=list(range(5))), Store(tmp_path), site, False)
    assert (sum(len(chunk.bundles) for chunk in planned.chunks), planned.later) == (2, 3), "one is the report"
