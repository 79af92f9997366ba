"""Drafters: traced for, trained, calibrated, checked, compared."""

from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from suite.cli.common import (
    HERE,
    RECORDED,
    Results,
    Traces,
    aside,
    each,
    fail_on,
    show,
    starting,
    table_of,
    telling,
    warn,
)
from suite.errors import UserError

app = typer.Typer()


@app.command("new-drafter")
def new_drafter(file: Annotated[Path, typer.Argument(metavar="FILE", help="Such as my_drafter.py.")]) -> None:
    """Write a small drafter of your own to begin with."""
    with starting():
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
    with starting():
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
    standing = table_of("passes per prompt", "rows", *map(escape, columns))
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
    with starting():
        from suite import grid, replay

    if split not in ("test", "train"):
        raise UserError(f"--split {split}: say test or train")
    wanted = grid.of_baselines(target, task, temperature, rule, context, prompts, allow_code_execution)
    with telling("record", len(wanted.bundles())) as begin:
        for n, bundle in enumerate(wanted.bundles()):
            found = replay.record_bundle(bundle, traces, allow_code_execution, begin(n, 0), split)  # type: ignore[arg-type]
            show.print(f"{bundle.title}: {len(found.doc_ids())} prompts in {escape(str(found.folder))}", soft_wrap=True)


@app.command()
def train(
    drafter: Annotated[str, typer.Argument(help="spot (traces of exact decoding) or spot-sets (of a threshold).")],
    out: Annotated[Path, typer.Option(help="Folder for the network.", file_okay=False)],
    target: Annotated[str, typer.Option(help="The home target.")] = "tiny-sdar-b16",
    rule: str = "",
    traces: Traces = RECORDED,
    steps: int = 6000,
    dropout: Annotated[float, typer.Option(min=0.0, max=0.9, help="Of what a layer adds.")] = 0.0,
    seed: int = 0,
    wandb: Annotated[
        bool,
        typer.Option(
            "--wandb", help="Its curve as a Weights & Biases run in OUT/wandb, offline unless WANDB_MODE is set."
        ),
    ] = False,
) -> None:
    """Train a drafter's network on the train-split traces of a target. Run it again to go on after an interruption."""
    with starting():
        from drafters import training
        from drafters.examples import collect
        from suite import tracking
        from suite.trace import find

    if drafter not in ("spot", "spot-sets"):
        raise UserError(f"nothing to train for {drafter!r}; say spot or spot-sets")
    rule = rule or ("exact" if drafter == "spot" else "threshold(0.9)")
    recipe = training.Recipe(steps=steps, dropout=dropout, seed=seed)
    with telling("train", 2) as begin:
        tell = begin(0, 0)
        found = find(traces, target, "train", rule)
        data = collect(found, recipe.reach, lambda n, of: tell("reading traces", n, of))
        run = training.Training(recipe, data, out / "work")
        config = {"drafter": drafter, **asdict(recipe), **data.source}
        tracked = tracking.curve(f"{drafter} {target}", config, out, warn) if wandb else nullcontext(lambda _: None)
        tell = begin(1, 0)
        with tracked as note:
            run.run(lambda step, known: tell(", ".join(f"{k} {v:.3g}" for k, v in known.items()), step, steps), note)
    run.export(out, drafter)
    show.print((out / "README.md").read_text(encoding="utf-8"), markup=False)


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
    with starting():
        import tasks.harness
        from drafters import calibration
        from suite import grid, replay
    names = task or tasks.harness.shipped()
    wanted = grid.of_baselines(target, names, [temperature], rule, "", prompts, allow=True)  # train answers are not run
    found = []
    with telling(target, len(wanted.bundles())) as begin:
        for n, bundle in enumerate(wanted.bundles()):
            recorded = replay.record_bundle(bundle, traces, True, begin(n, 0), "train")
            found += [(recorded.header, recorded.read(doc_id)) for doc_id in recorded.doc_ids()[:prompts]]
    made = calibration.calibrate(found)
    path = calibration.write(made, calibration.home())
    show.print(
        f"{made.passes} passes of {made.prompts} train prompts\ncalibration: {escape(str(path))}", soft_wrap=True
    )


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
    with starting():
        from reports import compare as comparing
        from reports import submissions, tables
        from reports.entry import write
        from suite import machine, replay
        from suite.store import Store

        wanted = comparing.plan(drafter, target, task or [], rule, temperature, rows, prompts, allow_code_execution)
    mine, store = wanted.drafters[-1], Store(results / machine.name() / wanted.name)
    work = partial(replay.replay_bundle, store=store, root=traces, allow_code_execution=wanted.allow_code_execution)
    each(wanted, wanted.bundles(), store, work, 1)
    for one in comparing.compare(store, wanted, mine):
        show.print(tables.terminal(one.part.setting.title, tables.methods(one.part), one.part.lines, show.width), "")
        show.print(tables.terminal(f"{mine} against each", comparing.AGAINST, one.duels, show.width), "")
    show.print(f"{tables.REPLAYED_NOTE} {comparing.NOTE}", style="dim")
    fail_on(store, wanted.cells())
    if entry:
        (made,) = submissions.make(
            store, wanted.cells(), dict(wanted.bundles()[0].files), traces, lambda *_: None, only=mine
        )
        show.print(f"entry: {escape(str(write(made, entry)))}", soft_wrap=True)
