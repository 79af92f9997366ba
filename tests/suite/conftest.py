"""The tiny grid, run once; and grid files made from it."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from suite import grid
from tests.suite.tiny_grid import TinyRun, grid_text, spotbench, store_of


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> TinyRun:
    home = tmp_path_factory.mktemp("tiny-run")
    file = home / "tiny.toml"
    file.write_text(grid_text())
    ran = spotbench("run", file, "--results", home / "results")
    assert ran.code == 0, ran.err
    return TinyRun(file, home / "results", store_of(home / "results"), grid.read(str(file)).cells())


@pytest.fixture
def write_grid(tmp_path: Path) -> Callable[..., Path]:
    """Write the tiny grid, changed, to a file."""

    def write(**changes: str | None) -> Path:
        file = tmp_path / "grid.toml"
        file.write_text(grid_text(**changes))
        return file

    return write


@pytest.fixture
def in_folder(tmp_path: Path) -> Iterator[Path]:
    """A working directory of its own."""
    with contextlib.chdir(tmp_path):
        yield tmp_path
