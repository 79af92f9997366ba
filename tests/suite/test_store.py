"""The store against kills, full disks, damage and other processes."""

import errno
import json
import os
import random
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from suite import records
from suite.errors import UserError
from suite.records import Visit
from suite.store import Census, Store
from tests.suite.tiny_grid import contents, finish, made_bundle, made_cell, made_manifest, made_sample

FILES = ["manifest.json", "result.json", "samples.jsonl", "steps.jsonl"]
BUNDLE = made_bundle("chain", "oracle")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results" / "machine" / "tiny")


def samples(count: int = 2, **changes: Any) -> list[records.Sample]:
    return [made_sample(n, **changes) for n in range(count)]


def visit(doc_id: int, drafters: tuple[str, ...] = ("none", "chain", "oracle"), **changes: Any) -> Visit:
    return Visit(doc_id, {made_cell(drafter).id: made_sample(doc_id, **changes) for drafter in drafters})


def seen(store: Store) -> set[tuple[int, str]]:
    return {(one.doc_id, cell) for one in store.visits(BUNDLE) for cell in one.samples}


def in_child(work: Callable[[], object]) -> int:
    """Do `work` in a forked process; its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            work()
            code = 0
        except UserError:
            code = 2
        finally:  # nothing of the child may go on with the parent's tests
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Counted:
    """A system call that does as told once it was called so many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, after: int, then: Callable[[], None]) -> None:
        self._real, self._left, self._then = getattr(os, name), after, then
        monkeypatch.setattr(os, name, self)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if self._left == 0:
            self._then()
        self._left -= 1
        return self._real(*arguments, **options)


def full() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# --- DONE -----------------------------------------------------------------------------------------


def test_a_cell_is_done_with_its_result_and_not_before(store: Store) -> None:
    cell = made_cell()
    assert not store.done(cell)
    finish(store, cell, samples())
    assert sorted(contents(store.root / cell.id)) == FILES
    assert store.done(cell)
    (store.root / cell.id / "result.json").unlink()
    assert not store.done(cell)


def test_what_is_read_is_what_was_finished(store: Store) -> None:
    cell = made_cell()
    finish(store, cell, samples(text='odd \ud800 "text"\n| [red]'))
    read = store.read(cell)
    assert (read.cell, read.samples) == (cell, samples(text='odd \ud800 "text"\n| [red]'))
    assert read.result.summary == records.summarise(samples(), "exact_match")
    assert read.result.files["samples.jsonl"]["lines"] == 2


def test_the_first_writer_wins(store: Store) -> None:
    cell = made_cell()
    finish(store, cell, samples(text="first"))
    before = contents(store.root)
    finish(store, cell, samples(text="second"))
    assert contents(store.root) == before


def test_two_that_finish_at_once_leave_one_whole_result(store: Store) -> None:
    cell = made_cell()
    for _ in range(10):
        pids = []
        for name in "abcd":
            if (child := os.fork()) == 0:
                try:
                    finish(store, cell, samples(text=name * 1000))
                finally:
                    os._exit(0)
            pids.append(child)
        assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 4
        assert len({sample.text for sample in store.read(cell).samples}) == 1
        assert sorted(contents(store.root / cell.id)) == FILES
        for name in FILES:
            (store.root / cell.id / name).unlink()


# --- damage ---------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("harm", [cut, flip, empty, Path.unlink])
@pytest.mark.parametrize("name", ["samples.jsonl", "steps.jsonl", "manifest.json"])
def test_a_damaged_file_is_one_line_that_names_it_and_the_mend(
    harm: Callable[[Path], None], name: str, store: Store
) -> None:
    cell = made_cell()
    finish(store, cell, samples())
    harm(store.root / cell.id / name)
    with pytest.raises(UserError) as error:
        store.read(cell)
    message = str(error.value)
    assert len(message.splitlines()) == 1
    assert str(store.root / cell.id / name) in message
    assert f"remove the folder {cell.id} and run again" in message


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "5", "{}", '{"schema": "x"}', '{"schema": 1}', '{"schema": 1, "cell_id": "", "files": {}}',
     '{"schema": 1, "cell_id": "", "summary": 5, "files": []}', "\xff"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["result.json", "failures/f.json"])
def test_a_result_or_failure_that_is_none_is_one_line(name: str, content: str, store: Store) -> None:
    cell = made_cell()
    finish(store, cell, samples())
    (store.root / cell.id / "failures").mkdir()
    (store.root / cell.id / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(UserError) as error:
        store.read(cell) if name == "result.json" else store.failed(cell)
    assert len(str(error.value).splitlines()) == 1
    assert str(store.root / cell.id / name) in str(error.value)


def test_a_result_that_vouches_for_no_samples_is_no_result(store: Store) -> None:
    cell = made_cell()
    finish(store, cell, samples())
    path = store.root / cell.id / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "files": {}}))
    with pytest.raises(UserError, match=r"manifest\.json: damaged or missing"):
        store.read(cell)


def test_the_results_of_another_cell_are_not_taken_for_these(store: Store) -> None:
    one, other = made_cell(), made_cell("oracle")
    finish(store, one, samples())
    (store.root / one.id).rename(store.root / other.id)
    with pytest.raises(UserError, match=one.id):
        store.read(other)


@pytest.mark.parametrize("name", ["result.json", "manifest.json", "failures/f.json"])
def test_a_newer_schema_is_refused_in_one_line(name: str, store: Store) -> None:
    cell = made_cell()
    (store.root / cell.id / "failures").mkdir(parents=True)
    finish(store, cell, samples(), **({"schema": records.SCHEMA + 1} if name == "manifest.json" else {}))
    if name != "manifest.json":
        (store.root / cell.id / name).write_text(json.dumps({"schema": records.SCHEMA + 1, "new": "shape"}))
    with pytest.raises(UserError) as error:
        store.failed(cell) if name.startswith("failures") else store.read(cell)
    message = str(error.value)
    assert len(message.splitlines()) == 1
    assert message.startswith(str(store.root / cell.id / name))
    assert f"schema {records.SCHEMA + 1}" in message
    assert "upgrade" in message


def test_failures_are_kept_oldest_first(store: Store) -> None:
    for n in range(5):
        store.fail(made_cell(), ValueError(f"no. {n}"), "Traceback ...")
    assert [failure.message for failure in store.failed(made_cell())] == [f"no. {n}" for n in range(5)]
    assert {failure.error for failure in store.failed(made_cell())} == {"ValueError"}
    assert not store.done(made_cell())


# --- partial files --------------------------------------------------------------------------------


def test_a_torn_last_line_is_dropped_at_whatever_byte_and_all_before_it_kept(store: Store) -> None:
    store.append(BUNDLE, visit(0), "p")
    (file,) = (store.root / "partial").glob("*/p.jsonl")
    whole = file.read_bytes()
    store.append(BUNDLE, visit(1), "p")
    both = file.read_bytes()
    for size in [*range(len(whole), len(both) - 1, 7), len(both) - 2]:
        file.write_bytes(both[:size])
        assert store.visits(BUNDLE) == [visit(0)], size
    file.write_bytes(both)
    assert store.visits(BUNDLE) == [visit(0), visit(1)]


def test_a_line_damaged_in_the_middle_costs_its_prompt_only(store: Store) -> None:
    for n in range(3):
        store.append(BUNDLE, visit(n), "p")
    (file,) = (store.root / "partial").glob("*/p.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + b"\0" * len(lines[1]) + b"\n" + lines[2])
    assert [one.doc_id for one in store.visits(BUNDLE)] == [0, 2]


class Interleaved(RuleBasedStateMachine):
    """Several processes append what they think is missing; any is killed at any byte of a line."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.store = Store(Path(self.folder.name))
        self.running: dict[str, set[tuple[int, str]]] = {}
        self.started = 0
        self.safe: set[tuple[int, str]] = set()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    @rule()
    def start(self) -> None:
        self.started += 1
        self.running[f"{self.started:03}"] = seen(self.store)

    def _write(self, process: str, doc_id: int, drafters: tuple[str, ...]) -> None:
        self.store.append(BUNDLE, visit(doc_id, drafters, text=process), process)
        done = {(doc_id, made_cell(drafter).id) for drafter in drafters}
        self.running[process] |= done
        self.safe |= done

    @rule(
        data=st.data(), doc_id=st.integers(0, 3), methods=st.sampled_from([("none",), ("chain",), ("none", "oracle")])
    )
    def append(self, data: st.DataObject, doc_id: int, methods: tuple[str, ...]) -> None:
        """As the runner does: only what this process does not know to be done."""
        if self.running:
            process = data.draw(st.sampled_from(sorted(self.running)))
            todo = tuple(m for m in methods if (doc_id, made_cell(m).id) not in self.running[process])
            if todo:
                self._write(process, doc_id, todo)

    @rule(data=st.data(), doc_id=st.integers(0, 3))
    def kill(self, data: st.DataObject, doc_id: int) -> None:
        """In the middle of a line."""
        if self.running:
            process = data.draw(st.sampled_from(sorted(self.running)))
            before = set(self.safe)
            self._write(process, doc_id, ("chain",))
            (file,) = (self.store.root / "partial").glob(f"*/{process}.jsonl")
            line = file.read_bytes().splitlines(keepends=True)[-1]
            torn = data.draw(st.integers(2, len(line)))
            os.truncate(file, file.stat().st_size - torn)
            self.safe = before
            del self.running[process]

    @rule()
    def kill_between_lines(self) -> None:
        if self.running:
            self.running.popitem()

    @invariant()
    def nothing_written_is_lost(self) -> None:
        if hasattr(self, "store"):
            assert seen(self.store) == self.safe

    @invariant()
    def every_prompt_counts_once(self) -> None:
        from suite.runner import _collect

        if hasattr(self, "store"):
            visits = self.store.visits(BUNDLE)
            for cell in BUNDLE.cells:
                docs = [sample.doc_id for sample in _collect(cell, visits)[0]]
                assert docs == sorted({doc for doc, done in self.safe if done == cell.id})


TestInterleaved = Interleaved.TestCase
TestInterleaved.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)


def test_processes_that_are_killed_while_they_write_lose_a_prompt_each_at_most(store: Store) -> None:
    """Real ones, that know how far they came by what they tell the parent."""
    rng = random.Random(0)
    told: set[int] = set()
    for number in range(6):
        read, write = os.pipe()

        def work(number: int = number, write: int = write) -> None:
            for doc_id in range(number * 1000, number * 1000 + 1000):
                store.append(BUNDLE, visit(doc_id, text="x" * 5000), f"p{number}")
                os.write(write, doc_id.to_bytes(4, "little"))

        child = os.fork()
        if child == 0:
            try:
                work()
            finally:
                os._exit(0)
        os.close(write)
        for _ in range(rng.randint(1, 20)):
            told.add(int.from_bytes(os.read(read, 4), "little"))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while last := os.read(read, 4):
            told.add(int.from_bytes(last, "little"))
        os.close(read)
    kept = Counter(one.doc_id for one in store.visits(BUNDLE))
    assert told <= set(kept)
    assert len(set(kept) - told) <= 6, "of each process, at most the line that it had not told of yet"
    assert set(kept.values()) == {1}
    assert store.attempts(BUNDLE) == 6


def test_a_killed_finish_is_finished_by_the_next_process_wherever_it_was_killed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, number, killed = made_cell(), 0, True
    while killed:
        for name in ("fsync", "link"):
            with monkeypatch.context() as patch:
                Counted(patch, name, number, die)
                killed = in_child(lambda: finish(store, cell, samples())) == -signal.SIGKILL
            assert store.done(cell) == (
                not killed or (name == "fsync" and "result.json" in contents(store.root / cell.id))
            )
            finish(store, cell, samples())
            assert store.read(cell).samples == samples()
            store.clear(made_bundle("chain"))
            assert sorted(contents(store.root / cell.id)) == FILES
            for file in FILES:
                (store.root / cell.id / file).unlink()
        number += 1
    assert number > 4


@pytest.mark.parametrize("changed", [{"code": "c2"}, {"settings": {"metric": "exact_match", "weights": "w2"}}])
@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_what_a_killed_finish_left_is_not_mixed_with_what_other_code_or_weights_measured(
    number: int, changed: dict[str, Any], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = made_cell()
    with monkeypatch.context() as patch:
        Counted(patch, "link", number, die)
        assert in_child(lambda: finish(store, cell, samples(text="old"))) == -signal.SIGKILL
    finish(store, cell, samples(text="new"), **changed)
    read = store.read(cell)
    expected = replace(made_manifest(cell), **changed)
    assert (read.manifest["code"], read.manifest["settings"]) == (expected.code, expected.settings)
    assert {sample.text for sample in read.samples} == {"new"}


# --- a full disk ----------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["fsync", "link"])
def test_a_full_disk_at_any_call_is_one_line_and_leaves_nothing_half_written(
    call: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, number = made_cell(), 0
    reference = Store(store.root.parent / "reference")
    finish(reference, cell, samples())
    whole = contents(reference.root / cell.id)
    while True:
        with monkeypatch.context() as patch:
            Counted(patch, call, number, full)
            try:
                finish(store, cell, samples())
                break
            except UserError as error:
                assert "the disk is full" in str(error)
                assert "run again" in str(error)
                assert len(str(error).splitlines()) == 1
        assert contents(store.root / cell.id).items() <= whole.items()
        number += 1
    assert number >= 4
    assert contents(store.root / cell.id) == whole


def test_a_full_disk_while_a_prompt_is_written_loses_that_prompt_only(store: Store) -> None:
    store.append(BUNDLE, visit(0), "p")
    (file,) = (store.root / "partial").glob("*/p.jsonl")
    (file.parent / "q.jsonl").symlink_to("/dev/full")
    with pytest.raises(UserError, match="the disk is full.*run again") as error:
        store.append(BUNDLE, visit(1), "q")
    assert len(str(error.value).splitlines()) == 1
    (file.parent / "q.jsonl").unlink()
    assert store.visits(BUNDLE) == [visit(0)]
    store.append(BUNDLE, visit(1), "r")
    assert store.visits(BUNDLE) == [visit(0), visit(1)]


@pytest.mark.parametrize("room", [0, 100, 1000, 3000])
def test_a_write_cut_short_by_the_kernel_leaves_no_half_written_file(room: int, store: Store) -> None:
    """Real short writes: no file of the child may grow beyond `room` bytes."""
    cell = made_cell()

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        store.append(BUNDLE, visit(0), "p")
        finish(store, cell, samples(20))

    assert in_child(limited) == 2
    assert store.visits(BUNDLE) in ([], [visit(0)])
    assert [name for name in contents(store.root) if cell.id in name and "/." in name] == []
    assert not store.done(cell)
    finish(store, cell, samples(20))
    assert store.read(cell).samples == samples(20)


def test_a_folder_that_is_a_file_is_one_line(store: Store) -> None:
    store.root.parent.mkdir(parents=True)
    store.root.write_text("in the way")
    for write in (
        lambda: store.append(BUNDLE, visit(0), "p"),
        lambda: finish(store, made_cell(), samples()),
        lambda: store.fail(made_cell(), ValueError("x"), ""),
        lambda: store.write_report("report.md", "x"),
    ):
        with pytest.raises(UserError, match="cannot write") as error:
            write()
        assert len(str(error.value).splitlines()) == 1


def test_a_report_is_replaced_whole_or_not_at_all(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write_report("report.md", "old")
    with monkeypatch.context() as patch:
        Counted(patch, "fsync", 0, full)
        with pytest.raises(UserError, match="the disk is full"):
            store.write_report("report.md", "new")
    assert contents(store.root) == {"report.md": b"old"}
    store.write_report("report.md", "new")
    assert contents(store.root) == {"report.md": b"new"}


def test_clearing_a_bundle_leaves_the_others_alone(store: Store) -> None:
    other = made_bundle("random")
    other = replace(other, baseline=made_cell("none", seed=1))
    store.append(BUNDLE, visit(0), "p")
    store.append(other, visit(0), "p")
    store.clear(BUNDLE)
    assert store.visits(BUNDLE) == []
    assert store.visits(other) == [visit(0)]


def test_what_another_process_is_just_writing_is_left_to_it_until_all_is_done(store: Store) -> None:
    cell = made_cell()
    writing = store.root / cell.id / ".manifest.json.0123"
    writing.parent.mkdir(parents=True)
    writing.write_text("half of it")
    finish(store, cell, samples())
    assert writing.exists()
    assert store.read(cell).samples == samples()
    store.clear(BUNDLE)
    assert sorted(contents(store.root / cell.id)) == FILES


def test_one_look_at_a_store(tmp_path: Path) -> None:
    store, bundle = Store(tmp_path / "a"), made_bundle("chain", "oracle")
    assert store.census() == Census({}, frozenset(), frozenset())
    finish(store, bundle.cells[1], [made_sample()])
    for cell in bundle.cells[:2]:
        store.fail(cell, ValueError("x"), "")
    store.append(bundle, Visit(0, {}), "p")
    (store.root / "partial" / "of.other-code").mkdir()
    found = store.census()
    assert list(found.done) == [bundle.cells[1].id], "done is done, whatever failed before"
    assert abs(found.done[bundle.cells[1].id] - time.time()) < 600
    assert (found.failed, found.begun) == ({bundle.cells[0].id}, {bundle.id})


def test_failures_since_a_time(tmp_path: Path) -> None:
    store, cell = Store(tmp_path), made_cell()
    assert not store.failed_since(cell.id, "")
    store.fail(cell, ValueError("x"), "")
    year = datetime.now(UTC).year
    assert [store.failed_since(cell.id, stamp) for stamp in ("", f"{year - 1}", f"{year + 1}")] == [True, True, False]
