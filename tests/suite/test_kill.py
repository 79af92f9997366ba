"""A run that is killed again and again ends where an undisturbed one does."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from suite import grid
from suite.cells import Bundle
from suite.store import Store
from tests.suite.tiny_grid import CLI, outcomes, spotbench, store_of

KILLS = int(os.environ.get("SPOTBENCH_KILLS", "4"))
"""How often, in bundles that see two each: one fewer than would give up a cell that gets nowhere. 20 take minutes."""
GRID = {
    "seeds": str(list(range(KILLS // 2))),
    "prompts": "6",
    "drafters": '["chain", "best-first", "oracle"]',
}


def start(file: Path, results: Path) -> subprocess.Popen[bytes]:
    """A run that can be interrupted, even where these tests are run with interrupts ignored (in the background)."""
    return subprocess.Popen(
        [*CLI, "run", str(file), "--results", str(results)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def prompts_done(store: Store, bundles: list[Bundle]) -> int:
    return sum(
        bundle.baseline.prompts
        if store.done(bundle.baseline)
        else len({visit.doc_id for visit in store.visits(bundle)})
        for bundle in bundles
    )


def test_killed_at_any_point_it_ends_where_an_undisturbed_run_does(
    tmp_path: Path, write_grid: Callable[..., Path]
) -> None:
    file, rng = write_grid(**GRID), random.Random(0)
    bundles, cells = grid.read(str(file)).bundles(), grid.read(str(file)).cells()
    killed, calm = store_of(tmp_path / "killed"), store_of(tmp_path / "calm")
    assert spotbench("run", file, "--results", tmp_path / "calm").code == 0
    seconds = [s.prefill_s + s.decode_s for cell in cells for s in calm.read(cell).samples]
    a_prompt = sum(seconds) / sum(bundle.baseline.prompts for bundle in bundles)

    for n in range(KILLS):
        before, enough = bundles[: n // 2], prompts_done(killed, bundles) + n % 2
        process = start(file, tmp_path / "killed")
        while process.poll() is None and not (
            all(killed.done(cell) for bundle in before for cell in bundle.cells)
            and prompts_done(killed, bundles) >= enough
        ):
            time.sleep(0.02)
        time.sleep(rng.uniform(0, a_prompt))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL

    assert spotbench("run", file, "--results", tmp_path / "killed").code == 0
    assert outcomes(killed, cells) == outcomes(calm, cells)
    assert not list((killed.root / "partial").glob("*"))


def test_an_interrupt_is_one_line_and_the_run_can_go_on(tmp_path: Path, write_grid: Callable[..., Path]) -> None:
    file = write_grid(prompts="40")
    process = start(file, tmp_path / "results")
    assert process.stderr is not None
    for line in process.stderr:  # one line for each thing it does
        if b"tiny-gsm T=" in line:
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.decode().strip().splitlines()[-1] == "interrupted; the same command goes on from here"
    assert b"Traceback" not in err
    assert spotbench("status", file, "--results", tmp_path / "results").code == 0
