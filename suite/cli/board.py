"""The leaderboard and its entries."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from suite.cli.common import (
    HERE,
    RECORDED,
    Added,
    GridName,
    Replayed,
    Results,
    Traces,
    open_grid,
    show,
    starting,
    telling,
)
from suite.errors import UserError

if TYPE_CHECKING:
    from reports.entry import Entry

app = typer.Typer(
    help="Who needs the fewest passes: a page, and the entries it is made from.",
    no_args_is_help=True,
    add_completion=False,
)
Entries = Annotated[Path, typer.Option("--entries", help="Folder of your own entries.", file_okay=False)]
OWN = Path("entries")


@app.command("build")
def build(
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


@app.command("add")
def add(
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


@app.command("validate")
def validate(
    entry: Annotated[list[Path], typer.Argument(metavar="ENTRY...", help="Files of entries.", dir_okay=False)],
    drafter: Annotated[
        str, typer.Option(metavar="FILE:CLASS", help="The drafter, where it is a class in a file.")
    ] = "",
    traces: Traces = RECORDED,
    allow_code_execution: bool = False,
) -> None:
    """Make entries again from traces, recording those that are missing; fail on the first that is not the same."""
    with starting():
        from reports import submissions
        from reports.entry import read

    for path in entry:
        one = read(path)
        with telling(path.name, 1) as begin:
            try:
                submissions.validate(one, traces, drafter, allow_code_execution, begin(0, 0))
            except UserError as error:
                raise UserError(f"{path}: {error}") from error
        show.print(f"[green]ok[/] {escape(str(path))}: all but its times was measured again", soft_wrap=True)


def _entries(grid_name: str, results: Path, traces: Path, drafter: list[str] | None, replayed: bool) -> "list[Entry]":
    """Of what is finished of a grid."""
    wanted, store = open_grid(grid_name, results, drafter, replayed, reading=True)
    with starting():
        from reports import submissions
    with telling(wanted.name, 1) as begin:
        made = submissions.make(store, wanted.cells(), dict(wanted.bundles()[0].files), traces, begin(0, 0))
    if not made:
        raise UserError(f"{grid_name}: nothing is finished at {store.root}; run or replay it first")
    return made
