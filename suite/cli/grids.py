"""A grid from plan to report, here or on a cluster."""

import json
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from suite.cli.common import (
    HERE,
    RECORDED,
    Added,
    GridName,
    On,
    Replayed,
    Results,
    Traces,
    Workers,
    aside,
    each,
    fail_on,
    open_grid,
    show,
    starting,
    table_of,
    telling,
    warn,
)
from suite.errors import UserError

app = typer.Typer()


@app.command()
def plan(
    grid_name: GridName,
    results: Results = HERE,
    drafter: Added = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Count what a grid holds, what is missing and how long that may take; run nothing."""
    wanted, store = open_grid(grid_name, results, drafter)
    with starting():
        from suite import estimate
        from suite import plan as planning

    bundles = wanted.bundles()
    found, missing = planning.plan(bundles, store), list(planning.missing(bundles))
    on = estimate.device(bundles[0].baseline).name
    if as_json:
        values = {"grid": wanted.name, "estimate_on": on, "bundles": [asdict(one) for one in found], "missing": missing}
        print(json.dumps(values, indent=1))
        return
    table = table_of("bundle", "methods", "prompts", "decodes", "done", "hours left")
    for one in found:
        counts = map(str, (one.methods, one.prompts, one.decodes, one.done))
        table.add_row(escape(one.title), *counts, f"~{one.hours:.1f}" if one.hours else "-")
    show.print(table)
    done = sum(one.done for one in found)
    show.print(f"{wanted.name}: {sum(one.methods for one in found)} cells in {len(found)} bundles, {done} done")
    if hours := sum(one.hours for one in found):
        show.print(
            f"~{hours:,.1f} hours on one {on}: an estimate from sizes, see suite/estimate.py; nothing was measured"
        )
    for line in missing:
        show.print(f"[yellow]missing[/] {escape(line)}", soft_wrap=True)


@app.command()
def run(grid_name: GridName, results: Results = HERE, drafter: Added = None, workers: Workers = 1) -> None:
    """Run what is missing of a grid on this machine, then report. Interrupt it at will; run it again to go on."""
    wanted, store = open_grid(grid_name, results, drafter)
    todo = [bundle for bundle in wanted.bundles() if not all(store.done(cell) for cell in bundle.cells)]
    if todo:
        with starting():
            from suite import runner
        if wanted.device == "replay":
            raise UserError(f'{grid_name}: device = "replay": spotbench replay {grid_name} runs it')
        work = partial(runner.run_bundle, store=store, allow_code_execution=wanted.allow_code_execution)
        each(wanted, todo, store, work, workers)
    else:
        show.print(f"{wanted.name}: all {len(wanted.cells())} cells are done, nothing to run")
    report(grid_name, results, drafter)
    fail_on(store, wanted.cells())


@app.command("replay")
def replay_(
    grid_name: GridName,
    results: Results = HERE,
    traces: Traces = RECORDED,
    drafter: Added = None,
    workers: Workers = 1,
) -> None:
    """Run a grid's drafters on recorded traces, without the target; record what is missing of these first."""
    wanted, store = open_grid(grid_name, results, drafter, replayed=True)
    todo = [bundle for bundle in wanted.bundles() if not all(store.done(cell) for cell in bundle.cells)]
    if todo:
        with starting():
            from suite import replay
        allow = wanted.allow_code_execution
        work = partial(replay.replay_bundle, store=store, root=traces, allow_code_execution=allow)
        each(wanted, todo, store, work, workers)
    report(grid_name, results, drafter, replayed=True)
    fail_on(store, wanted.cells())


@app.command()
def submit(
    grid_name: GridName,
    cluster: Annotated[str, typer.Option(metavar="NAME|FILE", help="A shipped cluster's name, or a TOML file.")],
    retry: Annotated[bool, typer.Option("--retry", help="Also what failed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be submitted.")] = False,
    results: Results = HERE,
    drafter: Added = None,
    replayed: Annotated[bool, typer.Option("--replayed", help="Replay traces, as spotbench replay does.")] = False,
    traces: Traces = RECORDED,
) -> None:
    """Run on a Slurm cluster what is missing of a grid or was lost, then report. Nothing that is at work or done is
    submitted again."""
    with starting():
        from slurm import cluster as clusters
        from slurm import ledger, status
        from slurm.submit import plan, submit

        site = clusters.read(cluster)
    wanted, store = open_grid(grid_name, results.absolute(), drafter, replayed, site.name)
    with nullcontext() if dry_run else ledger.alone(store.root):
        planned = plan(wanted, store, site, retry)
        show.print(status.planned(planned))
        if dry_run or not planned.chunks:
            return
        place = traces.absolute() if wanted.device == "replay" else None
        done = submit(planned, wanted, store, site, place, retry)
    for line in status.submitted(done):
        show.print(line, soft_wrap=True)
    show.print(f"spotbench status {escape(grid_name)} tells how far it is", soft_wrap=True)
    if done.refused:
        raise UserError(f"Slurm refused: {done.refused}; what it did not take is still missing: submit again")


@app.command()
def status(
    grid_name: GridName,
    watch: Annotated[bool, typer.Option("--watch", help="Again and again, until nothing is at work.")] = False,
    results: Results = HERE,
    drafter: Added = None,
    replayed: Replayed = False,
    on: On = "",
) -> None:
    """How far a grid is, and what failed or was lost. begun: prompts that unfinished bundles already have."""
    wanted, store = open_grid(grid_name, results, drafter, replayed, on, reading=True)
    with starting():
        from rich.live import Live

        from slurm import status as screens

    looks = screens.screens(wanted.bundles(), store)
    if watch and show.is_terminal:
        with Live(console=show, auto_refresh=False) as live:
            for screen in looks:
                live.update(screen, refresh=True)
    else:
        for screen in looks if watch else [next(looks)]:
            show.print(screen, crop=False)
    show.print(f"results: {escape(str(store.root))}", soft_wrap=True)


@app.command()
def check(
    grid_name: GridName, results: Results = HERE, drafter: Added = None, replayed: Replayed = False, on: On = ""
) -> None:
    """Fail on cells that are lossy, incomplete, damaged or degenerate."""
    from suite.check import check as find

    wanted, store = open_grid(grid_name, results, drafter, replayed, on, reading=True)
    faults = find(store, wanted.cells())
    for fault in faults:
        show.print(f"[red]{fault.kind}[/] {fault.cell.id}: {escape(fault.detail)}", soft_wrap=True)
    show.print(f"{wanted.name}: {len(wanted.cells())} cells, {len({fault.cell for fault in faults})} at fault")
    if faults:
        raise typer.Exit(1)


@app.command("rescore")
def rescore_(grid_name: GridName, results: Results = HERE, drafter: Added = None, replayed: Replayed = False) -> None:
    """Score stored answers anew, after a change of a task's scoring; the scores they were measured with stay beside."""
    wanted, store = open_grid(grid_name, results, drafter, replayed)
    with starting():
        from suite import rescore

    with telling(wanted.name, 1) as begin:
        found = rescore.rescore(store, wanted.cells(), begin(0, 0))
    table = table_of("cell", "answers changed", "score", "now")
    for one in found:
        if one.changed:
            table.add_row(
                escape(one.cell.id), str(one.changed), *(f"{x:.3f}" for x in (one.before, one.after) if x is not None)
            )
    changed = sum(one.changed > 0 for one in found)
    if changed:
        show.print(table)
    show.print(f"{wanted.name}: {len(found)} of {len(wanted.cells())} cells are done and scored, {changed} changed")


@app.command()
def report(
    grid_name: GridName, results: Results = HERE, drafter: Added = None, replayed: Replayed = False, on: On = ""
) -> None:
    """Tables of what is done, here; and tables, figures, claims and a page with all of it beside the results."""
    wanted, store = open_grid(grid_name, results, drafter, replayed, on, reading=True)
    with aside.status("reporting") as status:
        from reports import report as reports
        from reports import tables

        command = f"spotbench {'replay' if wanted.device == 'replay' else 'run'} {Path(grid_name).name}"
        path, made = reports.write(wanted.name, wanted.about, store, wanted.cells(), command, status.update)
    for section in tables.sections(made):
        show.print(tables.terminal(section.title, section.columns, section.rows, show.width), "")
    for note in dict.fromkeys(map(tables.note, made)) or ["nothing is done yet"]:
        show.print(note, style="dim")
    missing = sum(not store.done(cell) for cell in wanted.cells())
    if made and missing:
        show.print(
            f"[yellow]incomplete[/]: {missing} of {len(wanted.cells())} cells are not done, and not in the tables"
        )
    show.print(
        f"results: {escape(str(store.root))}\nreport:  {escape(str(path.with_name('index.html')))}", soft_wrap=True
    )


@app.command("track")
def track_(grid_name: GridName, results: Results = HERE, drafter: Added = None, replayed: Replayed = False) -> None:
    """Mirror finished cells, and the figures of the report, as Weights & Biases runs in the folder of the results.

    Offline unless WANDB_MODE is set; `wandb sync` uploads them. What is there already is left alone.
    """
    wanted, store = open_grid(grid_name, results, drafter, replayed)
    with aside.status("tracking"):
        from reports import track as tracks
        from suite import tracking

        logged = tracking.mirror(tracks.runs(wanted.name, store, wanted.cells()), store.root, warn)
    show.print(f"{logged} new runs in {escape(str(store.root / 'wandb'))}", soft_wrap=True)


@app.command()
def trace(
    cell: Annotated[str, typer.Argument(metavar="CELL", help="The id of a finished cell, or how it alone begins.")],
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="The number of one of its prompts.")],
    grid_name: Annotated[str, typer.Option("--grid", help="Only in this grid's results; also where targets lie.")] = "",
    results: Results = HERE,
) -> None:
    """Decode one prompt of a finished cell once more and show it pass by pass."""
    with starting():
        from suite import grid
        from suite import show as steps

        wanted = grid.read(grid_name) if grid_name else None
        place, found = steps.find(results, cell, wanted.name if wanted else "*")
        source = wanted.sources.get(found.target, "") if wanted else ""
        lines = list(steps.trace(place, found, source, prompt, show.width))
    for line in lines:
        show.print(line)
