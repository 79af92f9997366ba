"""The verbs of `spotbench`; each only calls the library and shows what came of it."""

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
    from suite.grid import Grid
    from suite.store import Store

app = typer.Typer(
    help="Benchmark speculative decoding of diffusion language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
show = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 120, highlight=False)
aside = Console(stderr=True, highlight=False)
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
    with _starting():
        import drafters
        import tasks.harness
        from suite import grid
        from suite.targets import catalog
        from suite.targets.fit import fit

    def target(name: str) -> tuple[str, str, str]:
        """Name, whether it can run here, and what it is or how to get it."""
        spec, here = catalog.CATALOG[name], fit(catalog.CATALOG[name])
        star = "*" if name in catalog.PAPER else ""
        return name + star, here.brief, "; ".join(filter(None, [spec.note, here.get]))

    kinds: dict[str, list[tuple[str, ...]]] = {
        "targets": [target(name) for name in catalog.CATALOG],
        "tasks": [(name, "") for name in tasks.harness.names()],
        "drafters": [(name, drafters.about(name)) for name in drafters.names()],
        "grids": [(name, grid.read(name).about) for name in grid.shipped()],
    }
    if kind and kind not in kinds:
        raise UserError(f"nothing to list under {kind!r}; say one of: {', '.join(kinds)}")
    for name, entries in kinds.items():
        if kind in ("", name):
            table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
            table.add_column(no_wrap=True)
            for entry in entries:
                table.add_row(*map(escape, entry))
            show.print(f"[bold]{name}[/]", table, "")
            if name == "targets":
                show.print("* like the paper's six; which six it took is not known to us\n")


@app.command()
def plan(grid_name: GridName, results: Results = HERE) -> None:
    """Count what a grid holds and what is missing; run nothing."""
    wanted, store = _open(grid_name, results)
    table = _table("bundle", "methods", "prompts", "decodes", "done")
    for bundle in wanted.bundles():
        prompts = bundle.baseline.prompts
        table.add_row(
            escape(bundle.title),
            str(len(bundle.cells)),
            str(prompts or "all"),
            str(prompts * len(bundle.cells) or "all"),
            str(sum(store.done(cell) for cell in bundle.cells)),
        )
    show.print(table)
    done = sum(store.done(cell) for cell in wanted.cells())
    show.print(f"{wanted.name}: {len(wanted.cells())} cells in {len(wanted.bundles())} bundles, {done} done")


@app.command()
def run(grid_name: GridName, results: Results = HERE) -> None:
    """Run what is missing of a grid on this machine, then report. Interrupt it at will; run it again to go on."""
    wanted, store = _open(grid_name, results)
    todo = [bundle for bundle in wanted.bundles() if not all(store.done(cell) for cell in bundle.cells)]
    if todo:
        with _starting():
            from suite import runner
        with _telling(wanted.name, len(todo)) as begin:
            for n, bundle in enumerate(todo):
                runner.run_bundle(bundle, store, wanted.allow_code_execution, begin(n))
    else:
        show.print(f"{wanted.name}: all {len(wanted.cells())} cells are done, nothing to run")
    report(grid_name, results)
    failed = [(cell, store.failed(cell)) for cell in wanted.cells() if not store.done(cell)]
    for cell, failures in failed:
        why = failures[-1].line if failures else "not run: its baseline failed"
        show.print(f"[red]failed[/] {cell.id}: {escape(why)}", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


@app.command()
def status(grid_name: GridName, results: Results = HERE) -> None:
    """How far a grid is. begun: prompts that an unfinished bundle already has."""
    wanted, store = _open(grid_name, results)
    table = _table("bundle", "cells", "done", "failed", "missing", "begun")
    for bundle in wanted.bundles():
        done = [cell for cell in bundle.cells if store.done(cell)]
        failed = [cell for cell in bundle.cells if cell not in done and store.failed(cell)]
        table.add_row(
            escape(bundle.title),
            str(len(bundle.cells)),
            str(len(done)),
            str(len(failed)),
            str(len(bundle.cells) - len(done) - len(failed)),
            str(len({visit.doc_id for visit in store.visits(bundle)})),
        )
    show.print(table)
    show.print(f"results: {escape(str(store.root))}", soft_wrap=True)


@app.command()
def check(grid_name: GridName, results: Results = HERE) -> None:
    """Fail on cells that are lossy, incomplete, damaged or degenerate."""
    from suite.check import check as find

    wanted, store = _open(grid_name, results)
    faults = find(store, wanted.cells())
    for fault in faults:
        show.print(f"[red]{fault.kind}[/] {fault.cell.id}: {escape(fault.detail)}", soft_wrap=True)
    show.print(f"{wanted.name}: {len(wanted.cells())} cells, {len({fault.cell for fault in faults})} at fault")
    if faults:
        raise typer.Exit(1)


@app.command()
def report(grid_name: GridName, results: Results = HERE) -> None:
    """Tables of what is done, here and as Markdown and CSV beside the results."""
    from reports import report as reports
    from reports import tables

    wanted, store = _open(grid_name, results)
    path, made = reports.write(wanted.name, wanted.about, store, wanted.cells())
    for part in made:
        show.print(tables.terminal(part.setting.title, tables.METHODS, part.lines, show.width), "")
    show.print(tables.METHODS_NOTE if made else "nothing is done yet", style="dim")
    missing = sum(not store.done(cell) for cell in wanted.cells())
    if made and missing:
        show.print(
            f"[yellow]incomplete[/]: {missing} of {len(wanted.cells())} cells are not done, and not in the tables"
        )
    show.print(f"results: {escape(str(store.root))}\nreport:  {escape(str(path))}", soft_wrap=True)


@app.command()
def calibrate(
    target: Annotated[str, typer.Option(help="The target's name.")],
    rule: Annotated[str, typer.Option(help="The commit rule: exact, or threshold(0.9).")] = "exact",
    temperature: Annotated[float, typer.Option(min=0.0)] = 0.0,
    prompts: Annotated[int, typer.Option(min=1, help="Train prompts of each task.")] = 100,
    task: Annotated[list[str] | None, typer.Option(help="A task; repeat it for more. [default: all]")] = None,
    traces: Annotated[Path, typer.Option(help="Folder for traces.", file_okay=False)] = Path("traces"),
) -> None:
    """Choose a target's graph for the spiffy drafters, from its own decodes of train prompts.

    It is written to $SPOTBENCH_CALIBRATIONS, else ./calibrations.
    """
    with _starting():
        import tasks.harness
        from drafters import calibration
        from suite.calibrate import train_traces
    names = task or tasks.harness.names()
    with _telling(target, len(names)) as begin:
        made = calibration.calibrate(train_traces(target, rule, temperature, names, prompts, traces, begin))
    path = calibration.write(made, calibration.home())
    show.print(
        f"{made.passes} passes of {made.prompts} train prompts\ncalibration: {escape(str(path))}", soft_wrap=True
    )


@app.command()
def doctor() -> None:
    """What this machine can run, and why not."""
    with _starting():
        from suite import doctor as examine

    faults = 0
    for finding in examine.examine():
        faults += finding.fault
        mark = "[green]ok[/]   " if finding.good else "[red]fault[/]" if finding.fault else "no   "
        show.print(f"{mark} {finding.what}: {escape(finding.detail)}", soft_wrap=True)
    if faults:
        raise typer.Exit(1)


def _open(grid_name: str, results: Path) -> "tuple[Grid, Store]":
    with _starting():
        from suite import grid, machine
        from suite.store import Store

        wanted = grid.read(grid_name)
        return wanted, Store(results / machine.name() / wanted.name)


@contextmanager
def _starting() -> Iterator[None]:
    """Around imports, which take seconds: the user sees that something happens."""
    if aside.is_terminal:
        with aside.status("starting"):
            yield
    else:
        yield


def _table(*columns: str) -> Table:
    """Names in the first column, which folds where it must; figures in the others, which never do."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for n, column in enumerate(columns):
        table.add_column(column, justify="right" if n else "left", no_wrap=n > 0, overflow="fold")
    return table


@contextmanager
def _telling(name: str, bundles: int) -> "Iterator[Callable[[int], runner.Progress]]":
    """How far a run is, on stderr: two bars on a terminal, else a line for each bundle and each thing done in it.

    Call what it yields with the number of a bundle to get the progress of that bundle.
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
    part = bars.add_task("", total=1, count="")

    def begin(n: int) -> "runner.Progress":
        bars.reset(part)
        before = ""

        def tell(what: str, done: int, total: int) -> None:
            nonlocal before
            bars.update(whole, completed=n + done / max(1, total), count=f"bundle {n + 1} of {bundles}")
            count = f"prompt {min(done + 1, total)} of {total}" if total else ""
            bars.update(part, description=escape(what), completed=done, total=max(1, total), count=count)
            if bars.disable and what != before:
                aside.print(f"{name}, bundle {n + 1} of {bundles}: {what}", soft_wrap=True, markup=False)
            before = what

        return tell

    with bars:
        yield begin


def main() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    _guard(app)


def _guard(command: Callable[[], None]) -> None:
    """A user's mistake is one line and exit code 2; an interrupt is one line and 130."""
    try:
        command()
    except UserError as error:
        aside.print(f"[red]spotbench:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as stop:
        if isinstance(stop, SystemExit) and stop.code != 130:  # which is how typer ends on an interrupt
            raise
        aside.print("interrupted; the same command goes on from here")
        sys.exit(130)


if __name__ == "__main__":
    main()
