"""Bundles as they are run: what is run again, what fails, in which order, and what a resumed run comes to."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import drafters.base
import tasks.harness
from drafters import Drafter, DraftView
from suite import grid, runner
from suite.decoding.decode import Decoded
from suite.decoding.state import State
from suite.store import Store
from suite.targets import checkpoint
from tasks.harness import Task
from tests.suite.tiny_grid import TinyRun, contents, grid_text, outcome, outcomes, spotbench, store_of


class Broken(Drafter):
    """Raises on its second proposal."""

    name = "broken"
    calls = 0

    def propose(self, view: DraftView, rows: int) -> list[State]:
        self.calls += 1
        if self.calls > 1:
            raise ZeroDivisionError("it is broken\nin two [/lines]")
        return []


class Unborn(Drafter):
    """Cannot even be made."""

    name = "unborn"

    def __init__(self) -> None:
        raise RuntimeError("its weights are gone")

    def propose(self, view: DraftView, rows: int) -> list[State]:
        return []


class Greedy(Drafter):
    """Proposes more than it may."""

    name = "greedy"

    def propose(self, view: DraftView, rows: int) -> list[State]:
        return [view.state] * (rows + 1)


@pytest.fixture
def add_drafter(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Drafter]], None]:
    return lambda drafter: monkeypatch.setitem(drafters.base._REGISTRY, drafter.name, drafter)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[tuple[int, ...], str]]]:
    """(prompt, drafter) of every decode whose time counts, in order."""
    seen: list[tuple[tuple[int, ...], str]] = []
    real = runner.decode

    def spy(target: Any, prompt: Any, policy: Any, drafter: Drafter, *rest: Any, **options: Any) -> Decoded:
        if policy.max_new_tokens > policy.block_size and not options.get("watch"):  # neither warm-up nor a second look
            seen.append((tuple(prompt), drafter.name))
        return real(target, prompt, policy, drafter, *rest, **options)

    monkeypatch.setattr(runner, "decode", spy)
    yield seen


def cells_of(results: Path, name: str = "tiny") -> dict[str, bytes]:
    """All that was measured: every file but the reports."""
    found = contents(store_of(results, name).root)
    return {path: data for path, data in found.items() if "/" in path and not path.startswith(("figures/", "paper/"))}


def quiet(what: str, done: int, total: int) -> None:
    return


def bundle_of(file: Path) -> Any:
    (bundle,) = grid.read(str(file)).bundles()
    return bundle


def test_a_second_run_changes_nothing_and_says_so(tiny_run: TinyRun, watched: list[Any]) -> None:
    before = cells_of(tiny_run.results)
    ran = spotbench("run", tiny_run.file, "--results", tiny_run.results)
    assert ran.code == 0
    assert "all 3 cells are done, nothing to run" in ran.out
    assert (cells_of(tiny_run.results), watched) == (before, [])


def test_a_finished_grid_holds_its_cells_and_nothing_else(tiny_run: TinyRun) -> None:
    files = {"manifest.json", "result.json", "samples.jsonl", "steps.jsonl"}
    assert set(cells_of(tiny_run.results)) == {f"{cell.id}/{name}" for cell in tiny_run.cells for name in files}


def test_a_manifest_has_no_path_and_no_host_name(tiny_run: TinyRun) -> None:
    import socket

    for cell in tiny_run.cells:
        text = (tiny_run.store.root / cell.id / "manifest.json").read_text()
        assert "/" not in json.dumps([json.loads(text)["settings"], json.loads(text)["cell"]])
        assert [name for name in (socket.gethostname(), str(Path.home()), str(tiny_run.results)) if name in text] == []


def test_a_drafter_that_is_added_later_is_all_that_is_run(
    tmp_path: Path, write_grid: Callable[..., Path], watched: list[tuple[tuple[int, ...], str]]
) -> None:
    results = tmp_path / "results"
    assert spotbench("run", write_grid(drafters='["chain"]'), "--results", results).code == 0
    before = cells_of(results)
    watched.clear()
    assert spotbench("run", write_grid(drafters='["chain", "random"]'), "--results", results).code == 0
    after = cells_of(results)
    assert {name: after[name] for name in before} == before
    assert {name.split(".")[4] for name in after.keys() - before.keys()} == {"random"}
    assert sorted({drafter for _, drafter in watched}) == ["none", "random"], "the baseline is timed beside it again"


@pytest.mark.parametrize(
    ("drafter", "error"), [(Broken, "DraftError"), (Unborn, "RuntimeError"), (Greedy, "DraftError")]
)
def test_a_drafter_that_fails_fails_only_its_own_cell(
    drafter: type[Drafter],
    error: str,
    tmp_path: Path,
    write_grid: Callable[..., Path],
    add_drafter: Callable[..., None],
) -> None:
    add_drafter(drafter)
    file, results = write_grid(drafters=f'["chain", "{drafter.name}", "oracle"]'), tmp_path / "results"
    ran = spotbench("run", file, "--results", results)
    assert ran.code == 1
    store, cells = store_of(results), {cell.drafter: cell for cell in grid.read(str(file)).cells()}
    assert {name for name, cell in cells.items() if store.done(cell)} == {"none", "chain", "oracle"}
    (failure,) = store.failed(cells[drafter.name])
    assert (failure.error, failure.cell_id) == (error, cells[drafter.name].id)
    assert "Traceback" in failure.traceback
    failed = [line for line in ran.out.splitlines() if line.startswith("failed")]
    assert len(failed) == 1
    assert cells[drafter.name].id in failed[0]
    assert failure.message.splitlines()[0] in failed[0]
    assert "Traceback" not in ran.out + ran.err


def test_a_drafter_that_was_mended_finishes_its_cell(
    tmp_path: Path, write_grid: Callable[..., Path], add_drafter: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_drafter(Broken)
    file, results = write_grid(drafters='["broken"]'), tmp_path / "results"
    assert spotbench("run", file, "--results", results).code == 1
    monkeypatch.setattr(Broken, "propose", lambda self, view, rows: [])
    assert spotbench("run", file, "--results", results).code == 0
    store = store_of(results)
    assert all(store.done(cell) for cell in grid.read(str(file)).cells())
    assert list((store.root / "partial").glob("*")) == []


def test_a_baseline_that_fails_ends_its_bundle_and_no_other(tmp_path: Path, write_grid: Callable[..., Path]) -> None:
    """A temperature so low that the logits overflow."""
    file, results = write_grid(temperatures="[1e-300, 1.0]", drafters='["chain"]'), tmp_path / "results"
    ran = spotbench("run", file, "--results", results)
    assert ran.code == 1
    assert "Traceback" not in ran.out + ran.err
    store = store_of(results)
    bad, good = grid.read(str(file)).bundles()
    assert [store.done(cell) for cell in bad.cells + good.cells] == [False, False, True, True]
    assert store.failed(bad.baseline)[0].error == "FloatingPointError"


def test_an_answer_that_cannot_be_scored_is_a_failure_and_no_crash(
    tmp_path: Path, write_grid: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def score(self: Task, doc_id: int, text: str) -> dict[str, float]:
        raise OverflowError("a number too long")

    monkeypatch.setattr(Task, "self_check", lambda self: None)
    monkeypatch.setattr(Task, "score", score)
    file, results = write_grid(drafters='["chain"]'), tmp_path / "results"
    ran = spotbench("run", file, "--results", results)
    assert (ran.code, "Traceback" in ran.out + ran.err) == (1, False)
    assert store_of(results).failed(bundle_of(file).baseline)[0].error == "OverflowError"


def test_a_method_that_cannot_be_measured_fails_alone(
    tmp_path: Path, write_grid: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = runner.Session._sample

    def sample(self: Any, request: Any, prompt: Any, seed: int, one: Decoded, *rest: Any) -> Any:
        if one is not rest[0]:  # which is the baseline
            raise OverflowError("no")
        return real(self, request, prompt, seed, one, *rest)

    monkeypatch.setattr(runner.Session, "_sample", sample)
    file, results = write_grid(drafters='["chain"]'), tmp_path / "results"
    assert spotbench("run", file, "--results", results).code == 1
    store, (base, chain) = store_of(results), bundle_of(file).cells
    assert (store.done(base), store.done(chain)) == (True, False)
    assert [failure.error for failure in store.failed(chain)] == ["OverflowError"]


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"prompts": "100000"}, ["tiny-gsm", "200 prompts", "100000", "prompts = 0"]),
        ({"device": '"cuda"'}, ["device", "no GPU", '"cpu"']),
    ],
)
def test_what_this_machine_or_task_does_not_have_is_one_line(
    changes: dict[str, str], wanted: list[str], tmp_path: Path, write_grid: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    ran = spotbench("run", write_grid(**changes), "--results", tmp_path / "results")
    assert ran.code == 2
    (line,) = [line for line in ran.err.splitlines() if line.startswith("spotbench:")]
    assert [part for part in wanted if part not in line] == [], line
    assert "Traceback" not in ran.err


def test_the_baseline_of_a_visit_is_the_baseline_cell(tiny_run: TinyRun) -> None:
    """The figures that pass reductions are made of, counted two ways."""
    read = {cell.drafter: tiny_run.store.read(cell) for cell in tiny_run.cells}
    base = {sample.doc_id: sample for sample in read["none"].samples}
    assert len(base) == 2
    for finished in read.values():
        assert [sample.doc_id for sample in finished.samples] == sorted(base)
        for sample in finished.samples:
            plain = base[sample.doc_id]
            assert sample.baseline_passes == plain.passes
            assert (sample.prompt_hash, sample.prompt_tokens) == (plain.prompt_hash, plain.prompt_tokens)
            assert sample.exact_match == (sample.tokens == plain.tokens)
            assert sum(sample.depths) + len(sample.depths) == sum(plain.depths) + len(plain.depths), "steps taken"
        assert finished.result.summary.baseline_passes == read["none"].result.summary.passes
    for sample in base.values():
        assert sample.baseline_passes == sample.verify_passes + sample.commit_passes
        assert (sample.baseline_s, set(sample.depths)) == (sample.decode_s, {0})


def test_every_fair_method_is_visited_at_every_position_and_the_others_last(
    tmp_path: Path, write_grid: Callable[..., Path], watched: list[tuple[tuple[int, ...], str]]
) -> None:
    file = write_grid(drafters='["chain", "oracle", "random"]', prompts="3")
    assert runner.run_bundle(bundle_of(file), store_of(tmp_path), False, quiet)
    orders = [[name for prompt, name in watched if prompt == one] for one in dict.fromkeys(p for p, _ in watched)]
    assert len(orders) == 3
    assert [set(place) for place in zip(*orders, strict=True)] == [{"none", "chain", "random"}] * 3 + [{"oracle"}]


@pytest.mark.parametrize("stop", [1, 2])
def test_an_interrupted_run_goes_on_where_it_stopped(
    stop: int, tiny_run: TinyRun, tmp_path: Path, watched: list[tuple[tuple[int, ...], str]]
) -> None:
    bundle, store = bundle_of(tiny_run.file), store_of(tmp_path)

    def interrupt(what: str, done: int, total: int) -> None:
        if total and done == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run_bundle(bundle, store, False, interrupt)
    assert not any(store.done(cell) for cell in bundle.cells)
    before = len(watched)
    assert before == 3 * stop
    assert runner.run_bundle(bundle, store, False, quiet)
    assert len(watched) - before == 3 * (2 - stop), "no prompt is decoded twice"
    assert outcomes(store, tiny_run.cells) == outcomes(tiny_run.store, tiny_run.cells)
    for cell in tiny_run.cells:
        one, other = store.read(cell), tiny_run.store.read(cell)
        timed = {"attempts", "started", "finished", "peak_memory_mib"}
        assert {k: v for k, v in one.manifest.items() if k not in timed} == {
            k: v for k, v in other.manifest.items() if k not in timed
        }
        assert one.result.summary == other.result.summary
        assert _steps(store, cell.id) == _steps(tiny_run.store, cell.id)


def test_progress_ends_at_all_prompts_and_never_goes_back(tiny_run: TinyRun, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    runner.run_bundle(
        bundle_of(tiny_run.file), store_of(tmp_path), False, lambda _, done, total: told.append((done, total))
    )
    assert told == sorted(told, key=lambda one: (one[1], one[0]))
    assert told[-1] == (2, 2)


def test_what_other_weights_made_of_a_prompt_is_not_gone_on_with(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: list[Any]
) -> None:
    bundle, store = bundle_of(tiny_run.file), store_of(tmp_path)

    def interrupt(what: str, done: int, total: int) -> None:
        if total and done == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "weights_hash", lambda spec: "of other weights")
        with pytest.raises(KeyboardInterrupt):
            runner.run_bundle(bundle, store, False, interrupt)
    watched.clear()
    assert runner.run_bundle(bundle, store, False, quiet)
    assert len(watched) == 3 * 2


def test_two_processes_on_one_bundle_come_to_one_result(tiny_run: TinyRun, tmp_path: Path) -> None:
    """The second begins and ends while the first is in its second prompt."""
    bundle, store, nested = bundle_of(tiny_run.file), store_of(tmp_path), []

    def other(what: str, done: int, total: int) -> None:
        if total and done == 1 and not nested:
            nested.append(runner.run_bundle(bundle, store, False, quiet))

    assert runner.run_bundle(bundle, store, False, other)
    assert nested == [True]
    assert outcomes(store, tiny_run.cells) == outcomes(tiny_run.store, tiny_run.cells)


def test_a_disk_that_fills_up_while_running_is_one_line_and_the_run_goes_on_later(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno
    import os

    file, results = tmp_path / "grid.toml", tmp_path / "results"
    file.write_text(grid_text())
    real, calls = os.fsync, []

    def filling(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", filling)
        ran = spotbench("run", file, "--results", results)
    assert ran.code == 2
    assert [line for line in ran.err.splitlines() if "the disk is full" in line] == ran.err.splitlines()[-1:]
    assert "Traceback" not in ran.err
    assert spotbench("run", file, "--results", results).code == 0
    assert outcomes(store_of(results), tiny_run.cells) == outcomes(tiny_run.store, tiny_run.cells)


def _steps(store: Store, cell: str) -> list[tuple[int, int, int, int]]:
    lines = (store.root / cell / "steps.jsonl").read_text().splitlines()
    return [tuple(json.loads(line)[key] for key in ("doc_id", "number", "rows", "depth")) for line in lines]  # type: ignore[misc]


def test_outcomes_leave_out_the_times_and_nothing_else(tiny_run: TinyRun) -> None:
    """So that what is compared above is what it says."""
    sample = tiny_run.store.read(tiny_run.cells[0]).samples[0]
    changed = {key for key, value in vars(sample).items() if vars(outcome(sample))[key] != value}
    assert changed == {"prefill_s", "draft_s", "verify_s", "host_s", "baseline_s"}


SPEED_TASK = """
task: speed
custom_dataset: !function score.load
test_split: test
doc_to_text: prompt
doc_to_target: ""
generation_kwargs: {until: [], max_gen_toks: 16}
process_results: !function tasks.scoring.unscored
metric_list: [{metric: bypass, aggregation: mean, higher_is_better: true}]
metadata: {version: 1.0, gold: false}
"""


def test_a_task_without_a_score_is_measured_and_shows_none(
    tmp_path: Path, write_grid: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.harness, "HOME", tmp_path / "tasks")
    folder = tmp_path / "tasks" / "speed"
    folder.mkdir(parents=True)
    (folder / "task.yaml").write_text(SPEED_TASK)
    (folder / "score.py").write_text(
        'import datasets\ndef load(**_):\n    rows = [{"prompt": "Name two cats."}, {"prompt": "What is 3 + 4?"}]\n'
        '    return {"test": datasets.Dataset.from_list(rows)}\n'
    )
    file, results = write_grid(tasks='["speed"]', drafters='["chain"]'), tmp_path / "results"
    ran = spotbench("run", file, "--results", results)
    assert ran.code == 0, ran.err
    store, cells = store_of(results), grid.read(str(file)).cells()
    assert [(one.metric, one.score) for one in (store.read(cell).result.summary for cell in cells)] == [("", None)] * 2
    (chain,) = [line for line in ran.out.splitlines() if line.startswith("chain")]
    assert chain.split()[-2:] == ["-", "100.0%"]


def test_nothing_is_decoded_for_a_task_that_cannot_score(
    tmp_path: Path, write_grid: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, watched: list[Any]
) -> None:
    monkeypatch.setattr(tasks.harness, "_CHECKED", set())
    monkeypatch.setattr(Task, "_score", lambda self, doc_id, text: {"exact_match": float(doc_id != 5)})
    ran = spotbench("run", write_grid(), "--results", tmp_path / "results")
    assert (ran.code, watched) == (2, [])
    assert "task tiny-gsm 1.0: items 5 do not score 1.0 on their gold answers" in ran.err


def test_a_run_does_not_go_on_with_prompts_of_another_version_of_the_task(
    tmp_path: Path, write_grid: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, watched: list[Any]
) -> None:
    bundle, store = bundle_of(write_grid(drafters='["chain"]')), Store(tmp_path)
    real = Store.finish
    monkeypatch.setattr(Store, "finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        runner.run_bundle(bundle, store, False, quiet)
    monkeypatch.setattr(Store, "finish", real)
    decoded = len(watched)
    load = tasks.harness.load

    def newer(name: str) -> Task:
        task = load(name)
        task.version = "2.0"
        return task

    monkeypatch.setattr(tasks.harness, "load", newer)
    assert runner.run_bundle(bundle, store, False, quiet)
    assert len(watched) == 2 * decoded


def test_a_prompt_that_does_not_fit_is_marked_and_neither_scored_nor_in_the_way(
    tmp_path: Path, write_grid: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.harness, "HOME", tmp_path / "tasks")
    folder = tmp_path / "tasks" / "long"
    folder.mkdir(parents=True)
    scored = "metadata: {version: 1.0, gold: false, metric: size}\n"
    text = SPEED_TASK.replace("task: speed", "task: long").replace("tasks.scoring.unscored", "score.score")
    (folder / "task.yaml").write_text(text.replace("metadata: {version: 1.0, gold: false}\n", scored))
    (folder / "score.py").write_text(
        'import datasets\ndef load(**_):\n    rows = [{"prompt": "cat " * 600}, {"prompt": "What is 3 + 4?"}]\n'
        '    return {"test": datasets.Dataset.from_list(rows)}\n'
        "def score(doc, results):\n    return {'size': float(len(results[0]) > 0)}\n"
    )
    file, results = write_grid(tasks='["long"]', drafters='["chain"]'), tmp_path / "results"
    ran = spotbench("run", file, "--results", results)
    assert ran.code == 0, ran.err
    store, cells = store_of(results), grid.read(str(file)).cells()
    for cell in cells:
        finished = store.read(cell)
        unanswered, answered = finished.samples
        assert (unanswered.finish, unanswered.scores, unanswered.tokens) == ("error", {}, [])
        assert "16 new ones exceed the 512 of tiny-sdar-b16" in unanswered.error
        assert (answered.error, answered.scores) == ("", {"size": 1.0})
        assert (finished.result.summary.errors, finished.result.summary.score) == (1, 1.0)
    found = spotbench("check", file, "--results", results)
    assert found.code == 1
    assert "1 of 2; first: prompt 0" in found.out
    assert "**2 prompts have no answer**" in (store.root / "report.md").read_text()
    shown = spotbench("trace", cells[0].id, "0", "--results", results)
    assert (shown.code, "prompt 0 was not decoded" in shown.err) == (2, True)


def test_how_an_answer_ended_is_stored_and_a_stop_string_is_told(
    tmp_path: Path, write_grid: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    load = tasks.harness.load

    def stopping(name: str) -> Task:
        task = load(name)
        task._task.config.generation_kwargs["until"] = ["####"]
        return task

    monkeypatch.setattr(tasks.harness, "load", stopping)
    file, results = write_grid(drafters='["none"]', rows="[1]", prompts="1"), tmp_path / "results"
    assert spotbench("run", file, "--results", results).code == 0
    (sample,) = store_of(results).read(grid.read(str(file)).cells()[0]).samples
    assert sample.finish == "stop"
    assert "####" not in sample.text
    assert len(sample.question) == 16
