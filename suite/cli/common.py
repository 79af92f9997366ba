"""What the verbs share: the consoles, the options, how a grid is opened, and how progress is shown."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from suite.errors import UserError

if TYPE_CHECKING:
    from suite import runner
    from suite.cells import Bundle, Cell
    from suite.grid import Grid
    from suite.store import Store

show = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 120, highlight=False)
aside = Console(stderr=True, highlight=False)
GridName = Annotated[str, typer.Argument(metavar="GRID", help="A shipped grid's name, or the path of a TOML file.")]
Results = Annotated[
    Path, typer.Option("--results", envvar="SPOTBENCH_RESULTS", help="Folder for results.", file_okay=False)
]
Traces = Annotated[
    Path, typer.Option("--traces", envvar="SPOTBENCH_TRACES", help="Folder for traces.", file_okay=False)
]
Replayed = Annotated[bool, typer.Option("--replayed", help="Of the replayed cells of the grid.")]
Added = Annotated[
    list[str] | None,
    typer.Option("--drafter", metavar="NAME|FILE:CLASS", help="A drafter besides the grid's own; may be repeated."),
]
On = Annotated[
    str,
    typer.Option("--on", metavar="NAME", help="Whose results: a cluster's name, or a machine's as its folder has it."),
]
Workers = Annotated[int, typer.Option(min=1, help="Processes that share the bundles; on GPUs, one for each.")]
HERE, RECORDED = Path("results"), Path("traces")


def open_grid(
    grid_name: str,
    results: Path,
    added: list[str] | None,
    replayed: bool = False,
    on: str = "",
    reading: bool = False,
) -> "tuple[Grid, Store]":
    """A grid and its results: those `on` a cluster, else this machine's; for `reading`, the only ones there are.

    Raises UserError when it cannot be told whose are meant.
    """
    with starting():
        from suite import grid, machine
        from suite.store import Store, stores

        wanted = grid.read(grid_name, added or ())
        if replayed:
            wanted = wanted.model_copy(update={"device": "replay"})
        there = stores(results, wanted.name) if reading and not on else []
        if len(there) == 1:
            return wanted, there[0]
        store = Store(results / (on or machine.name()) / wanted.name)
        if there and store not in there:
            names = ", ".join(one.root.parent.name for one in there)
            raise UserError(f"{results} has results of {wanted.name} from {names}; say --on and one of them")
        return wanted, store


def each(wanted: "Grid", todo: "list[Bundle]", store: "Store", work: Callable[..., bool], workers: int) -> None:
    """Do `work` on every bundle, in this process or in several."""
    with telling(wanted.name, len(todo), workers) as begin:
        if workers == 1:
            for n, bundle in enumerate(todo):
                work(bundle, progress=begin(n, 0))
            return
        from suite import machine, runner
        from suite.workers import run as share

        known = {bundle.id: set(store.last_seen(bundle)) for bundle in todo}

        def died(bundle: "Bundle", how: str) -> bool:
            """Another process goes on, as long as it is known which cell to hold back from the others."""
            seen = store.last_seen(bundle)
            blamed = {cell for process in seen.keys() - known[bundle.id] for cell in seen[process]}
            known[bundle.id] = set(seen)
            missing = [cell for cell in bundle.cells if not store.done(cell)]
            for cell in missing:
                if cell.id in blamed or not blamed:
                    runner.fail(store, cell, RuntimeError(how))
            return bool(blamed)

        share(todo, work, workers, begin, died, machine.worker_gpus(workers, wanted.device))


def fail_on(store: "Store", cells: "list[Cell]") -> None:
    """Say what failed, and end with an error if anything did."""
    failed = [(cell, store.failed(cell)) for cell in cells if not store.done(cell)]
    for cell, failures in failed:
        why = failures[-1].line if failures else "not run: its baseline failed"
        show.print(f"[red]failed[/] {cell.id}: {escape(why)}", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


@contextmanager
def starting() -> Iterator[None]:
    """Around imports, which take seconds: the user sees that something happens."""
    if aside.is_terminal:
        with aside.status("starting"):
            yield
    else:
        yield


def table_of(*columns: str) -> Table:
    """Names in the first column, which folds where it must; figures in the others, which never do."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for n, column in enumerate(columns):
        table.add_column(column, justify="right" if n else "left", no_wrap=n > 0, overflow="fold")
    return table


@contextmanager
def telling(name: str, bundles: int, workers: int = 1) -> "Iterator[Callable[[int, int], runner.Progress]]":
    """How far a run is, on stderr: a bar for it and one for each worker on a terminal, else a line for each bundle and
    each thing done in it.

    Call what it yields with the number of a bundle and its worker's to get the progress of that bundle.
    """
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=aside,
        disable=not aside.is_terminal,
    )
    whole = bars.add_task(escape(name), total=bundles, count="")
    parts = [bars.add_task("", total=1, count="") for _ in range(min(workers, bundles))]
    shares: dict[int, float] = {}

    def begin(n: int, worker: int) -> "runner.Progress":
        bars.reset(parts[worker])
        before = ""

        def tell(what: str, done: int, total: int) -> None:
            nonlocal before
            shares[n] = done / max(1, total)
            bars.update(whole, completed=sum(shares.values()), count=f"bundle {n + 1} of {bundles}")
            count = f"prompt {min(done + 1, total)} of {total}" if total else ""
            bars.update(parts[worker], description=escape(what), completed=done, total=max(1, total), count=count)
            if bars.disable and what != before:
                aside.print(f"{name}, bundle {n + 1} of {bundles}: {what}", soft_wrap=True, markup=False)
            before = what

        return tell

    with bars:
        yield begin


def warn(text: str) -> None:
    aside.print(text, style="yellow", soft_wrap=True, markup=False)
