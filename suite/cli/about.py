"""What there is, and what this machine can run."""

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from suite.cli.common import show, starting
from suite.errors import UserError

app = typer.Typer()


@app.command("list")
def list_(
    kind: Annotated[str, typer.Argument(help="targets, tasks, drafters, grids, or nothing for all.")] = "",
) -> None:
    """Targets, tasks, drafters and grids there are."""
    with starting():
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


@app.command()
def doctor() -> None:
    """What this machine can run, and why not."""
    with starting():
        from suite import doctor as examine

    faults = 0
    for finding in examine.examine():
        faults += finding.fault
        mark = "[green]ok[/]   " if finding.good else "[red]fault[/]" if finding.fault else "no   "
        show.print(f"{mark} {finding.what}: {escape(finding.detail)}", soft_wrap=True)
    if faults:
        raise typer.Exit(1)


@app.command(
    "lm-eval",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def lm_eval_(context: typer.Context) -> None:
    """lm-eval's own command, with the model "spotbench" and our tasks: --model_args target=T,drafter=D,rows=8."""
    with starting():
        from tasks import lm_eval_model

    lm_eval_model.main(context.args)
