"""The verbs of `spotbench`; each only calls the library and shows what came of it."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from suite.errors import UserError

if TYPE_CHECKING:
    from suite.store import Store

app = typer.Typer(
    help="Benchmark speculative decoding of diffusion language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
show = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
GridName = Annotated[str, typer.Argument(metavar="GRID", help="A shipped grid's name, or the path of a TOML file.")]
Results = Annotated[
    Path, typer.Option("--results", envvar="SPOTBENCH_RESULTS", help="Folder for results.", file_okay=False)
]
HERE = Path("results")


@app.command("list")
def list_(
    kind: Annotated[str, typer.Argument(help="targets, tasks, drafters, grids, or nothing for all.")] = "",
) -> None:
    """Targets, tasks, drafters and grids there are."""
    import drafters
    import tasks.harness
    from suite import grid
    from suite.targets import catalog

    kinds = {
        "targets": [(spec.name, spec.note) for spec in catalog.CATALOG.values()],
        "tasks": [(name, "") for name in tasks.harness.names()],
        "drafters": [(name, drafters.about(name)) for name in drafters.names()],
        "grids": [(name, grid.read(name).about) for name in grid.shipped()],
    }
    if kind and kind not in kinds:
        raise UserError(f"nothing to list under {kind!r}; say one of: {', '.join(kinds)}")
    for name, entries in kinds.items():
        if kind in ("", name):
            table = Table(title=name, title_justify="left", show_header=False, box=None, padding=(0, 2))
            for entry in entries:
                table.add_row(*entry)
            show.print(table)


@app.command()
def plan(grid_name: GridName, results: Results = HERE) -> None:
    """Count what a grid holds and what is missing; run nothing."""
    from suite import grid

    wanted = grid.read(grid_name)
    store = _store(results, wanted.name)
    table = Table(title=f"{wanted.name}: {len(wanted.cells())} cells in {len(wanted.bundles())} bundles")
    for column in ("bundle", "methods", "prompts", "decodes", "done"):
        table.add_column(column, justify="left" if column == "bundle" else "right")
    for bundle in wanted.bundles():
        prompts = bundle.baseline.prompts
        table.add_row(
            bundle.id,
            str(len(bundle.cells)),
            str(prompts or "all"),
            str(prompts * len(bundle.cells) or "all"),
            str(sum(store.done(cell) for cell in bundle.cells)),
        )
    show.print(table)


@app.command()
def run(grid_name: GridName, results: Results = HERE) -> None:
    """Run what is missing of a grid on this machine, then report. Interrupt it at will; run it again to go on."""
    from suite import grid, runner

    wanted = grid.read(grid_name)
    store = _store(results, wanted.name)
    todo = [bundle for bundle in wanted.bundles() if not all(store.done(cell) for cell in bundle.cells)]
    if not todo:
        show.print(f"{wanted.name}: all {len(wanted.cells())} cells are done, nothing to run")
    with _progress() as progress:
        whole = progress.add_task(wanted.name, total=len(todo))
        part = progress.add_task("", total=None)

        def tell(what: str, done: int, total: int) -> None:
            progress.update(part, description=what, completed=done, total=total or None)

        for bundle in todo:
            runner.run_bundle(bundle, store, wanted.allow_code_execution, tell)
            progress.advance(whole)
    report(grid_name, results)
    failed = [(cell, store.failed(cell)) for cell in wanted.cells() if not store.done(cell)]
    for cell, failures in failed:
        show.print(f"[red]failed[/] {cell.id}: {failures[-1].message if failures else 'not run'}", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


@app.command()
def status(grid_name: GridName, results: Results = HERE) -> None:
    """How far a grid is."""
    from suite import grid

    wanted = grid.read(grid_name)
    store = _store(results, wanted.name)
    table = Table(title=f"{wanted.name} in {store.root}")
    for column in ("bundle", "done", "failed", "missing", "prompts in progress"):
        table.add_column(column, justify="left" if column == "bundle" else "right")
    for bundle in wanted.bundles():
        done = [cell for cell in bundle.cells if store.done(cell)]
        failed = [cell for cell in bundle.cells if cell not in done and store.failed(cell)]
        table.add_row(
            bundle.id,
            str(len(done)),
            str(len(failed)),
            str(len(bundle.cells) - len(done) - len(failed)),
            str(len({visit.doc_id for visit in store.visits(bundle)})),
        )
    show.print(table)


@app.command()
def check(grid_name: GridName, results: Results = HERE) -> None:
    """Fail on cells that are lossy, incomplete or degenerate."""
    from suite import grid
    from suite.check import check as find

    wanted = grid.read(grid_name)
    store = _store(results, wanted.name)
    faults = find(store, wanted.cells())
    for fault in faults:
        show.print(f"[red]{fault.kind}[/] {fault.cell.id}: {fault.detail}", soft_wrap=True)
    show.print(f"{wanted.name}: {len(wanted.cells())} cells, {len({fault.cell for fault in faults})} at fault")
    if faults:
        raise typer.Exit(1)


@app.command()
def report(grid_name: GridName, results: Results = HERE) -> None:
    """Tables of what is done, here and as Markdown and CSV beside the results."""
    from reports import report as reports
    from reports import tables
    from suite import grid

    wanted = grid.read(grid_name)
    store = _store(results, wanted.name)
    path, made = reports.write(wanted.name, wanted.about, store, wanted.cells())
    for part in made:
        show.print(tables.terminal(part.setting.title, tables.METHODS, part.lines), "")
    show.print(tables.METHODS_NOTE if made else "nothing is done yet", style="dim")
    show.print(f"results: {store.root}\nreport:  {path}", soft_wrap=True)


@app.command()
def doctor() -> None:
    """What this machine can run, and why not."""
    from suite import doctor as examine

    faults = 0
    for finding in examine.examine():
        faults += not finding.good
        show.print(
            f"{'[green]ok[/]  ' if finding.good else '[red]fault[/]'} {finding.what}: {finding.detail}", soft_wrap=True
        )
    if faults:
        raise typer.Exit(1)


def _store(results: Path, grid_name: str) -> "Store":
    from suite import machine
    from suite.store import Store

    return Store(results / machine.name() / grid_name)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )


def main() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    _guard(app)


def _guard(command: Callable[[], None]) -> None:
    """A user's mistake is one line and exit code 2; an interrupt is one line and 130."""
    try:
        command()
    except UserError as error:
        Console(stderr=True, highlight=False).print(f"[red]spotbench:[/] {error}", soft_wrap=True, markup=True)
        sys.exit(2)
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted; the same command goes on from here")
        sys.exit(130)


if __name__ == "__main__":
    main()
