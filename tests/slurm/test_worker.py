"""What a job makes of signals and failures, in a process that submitit has prepared as it does on a node."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from submitit.core.job_environment import SignalHandler
from submitit.core.utils import DelayedSubmission, JobPaths, UncompletedJobError
from submitit.slurm.slurm import SlurmJobEnvironment

from slurm import worker
from slurm.worker import Task
from suite import deaths, machine, runner
from suite.errors import UserError
from suite.records import Visit
from suite.store import Store
from tests.suite.tiny_grid import finish, made_bundle, made_sample

BUNDLE = made_bundle("chain", "oracle")
BASELINE, CHAIN, ORACLE = BUNDLE.cells


@pytest.fixture
def signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR2, signal.SIGTERM, signal.SIGCONT)}
    signal.signal(signal.SIGUSR2, lambda *_: None)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def task(store: Store, **changes: object) -> Task:
    fields = {
        "bundle": BUNDLE, "store": store, "allow_code_execution": False, "traces": None, "leave": frozenset[str](),
        "submission": "20260101T000000-abc", "code": machine.code_hash(), "minutes": 60,
    } | changes  # fmt: skip
    return Task(**fields)  # type: ignore[arg-type]


def does(monkeypatch: pytest.MonkeyPatch, what: Callable[..., object]) -> None:
    """`run_bundle` does this instead."""
    monkeypatch.setattr(runner, "run_bundle", lambda bundle, store, allow, tell, leave: what(store, leave))


def submitits(one: Task, folder: Path, timeouts: int = 9) -> list[str]:
    """Signal handlers as submitit's; the jobs it puts back into the queue."""
    os.environ.setdefault("SLURM_JOB_ID", "1")
    requeued: list[str] = []
    environment = SlurmJobEnvironment()
    environment._requeue = lambda countdown: requeued.append("1")  # type: ignore[method-assign]
    delayed = DelayedSubmission(one)
    delayed.set_timeout(1, timeouts)
    environment._handle_signals(JobPaths(folder, "1", 0), delayed)
    assert isinstance(signal.getsignal(signal.SIGUSR2).__self__, SignalHandler)  # type: ignore[union-attr]
    return requeued


def swallow(store: Store, leave: object) -> None:
    """What a drafter, or who calls it, may do: catch all there is to catch."""
    try:
        os.kill(os.getpid(), signal.SIGUSR2)
        time.sleep(1)
    except (Exception, SystemExit) as error:  # noqa: BLE001
        store.fail(CHAIN, error, "")


def test_no_except_keeps_a_job_from_going_back_to_the_queue(
    tmp_path: Path, signals: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, one = Store(tmp_path), task(Store(tmp_path))
    does(monkeypatch, swallow)
    requeued = submitits(one, tmp_path)
    with pytest.raises(SystemExit):
        one()
    assert requeued == ["1"]
    assert not store.failed(CHAIN), "time being up is no failure"
    assert DelayedSubmission.load(JobPaths(tmp_path, "1", 0).submitted_pickle).function.bundle == BUNDLE


def test_a_job_that_may_not_go_on_says_so_and_fails(
    tmp_path: Path, signals: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, one = Store(tmp_path), task(Store(tmp_path), leave=frozenset([ORACLE.id]))
    does(monkeypatch, swallow)
    submitits(one, tmp_path, timeouts=0)
    with pytest.raises(UncompletedJobError, match="timed-out too many times"):
        one()
    assert [failure.error for failure in store.failed(CHAIN)] == ["UncompletedJobError"]
    assert not store.failed(ORACLE), "it was not this job's"


def test_a_job_that_gets_nowhere_is_given_up(tmp_path: Path, signals: None, monkeypatch: pytest.MonkeyPatch) -> None:
    does(monkeypatch, lambda *_: [finish(Store(tmp_path), cell, [made_sample()]) for cell in BUNDLE.cells])
    store, one = Store(tmp_path / "s"), task(Store(tmp_path / "s"))
    monkeypatch.setattr(worker.Task, "_run", lambda *_: None)
    with pytest.raises(RuntimeError, match="3 cells are not done"):
        one()
    for life in range(1, deaths.LIMIT):
        one._begun -= 3600
        after = one.checkpoint()
        assert after is not None
        assert after.function.stalled == life
        after.function._begun, after.function._had, one = one._begun, 0, after.function
    assert one.checkpoint() is None
    store.append(BUNDLE, Visit(0, {}), "p")
    after = one.checkpoint()
    assert after is not None
    assert after.function.stalled == 0, "it got on"


def test_sigterm_begins_nothing_more_and_waits_for_the_end(tmp_path: Path) -> None:
    """It is neither a failure nor a cell's fault, and a job that left by itself would not come back."""
    store = Store(tmp_path)
    child = os.fork()
    if not child:
        signal.signal(signal.SIGUSR2, lambda *_: None)

        def work(bundle: object, store: Store, *_: object) -> None:
            with store.watch(BUNDLE, "p") as at:
                at(CHAIN)
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(1)
            (tmp_path / "went on").touch()

        runner.run_bundle = work  # type: ignore[assignment]
        (tmp_path / "begun").touch()
        try:
            task(store)()
        finally:
            os._exit(0)
    end = time.monotonic() + 60
    while not (tmp_path / "begun").exists() or list(tmp_path.glob("partial/*/*.at")):
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(0.3)
    assert os.waitpid(child, os.WNOHANG) == (0, 0), "still there"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert not (tmp_path / "went on").exists()
    assert store.deaths(BUNDLE) == {}
    assert not store.failed(CHAIN)


def test_a_users_mistake_is_recorded_for_every_cell(
    tmp_path: Path, signals: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UserError("no GPU here")

    does(monkeypatch, refuse)
    store = Store(tmp_path)
    finish(store, BASELINE, [made_sample()])
    with pytest.raises(UserError):
        task(store)()
    assert [failure.message for cell in BUNDLE.cells for failure in store.failed(cell)] == ["no GPU here"] * 2


def test_code_that_was_not_submitted_does_not_run(
    tmp_path: Path, signals: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    does(monkeypatch, lambda *_: pytest.fail("it ran"))
    with pytest.raises(UserError, match="and 0123 was submitted; submit again"):
        task(Store(tmp_path), code="0123")()
    assert Store(tmp_path).failed(BASELINE)


def test_what_failed_in_an_earlier_life_is_not_tried_again(
    tmp_path: Path, signals: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[object] = []
    does(monkeypatch, lambda store, leave: left.append(leave))
    store = Store(tmp_path)
    store.fail(CHAIN, ValueError("x"), "")
    with pytest.raises(RuntimeError):
        task(store, leave=frozenset([ORACLE.id]))()
    with pytest.raises(RuntimeError):
        task(store, submission="90000101T000000-abc")()
    assert left == [{CHAIN.id, ORACLE.id}, set()], "of this submission; of one that was made after the failure"
