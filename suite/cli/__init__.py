"""The verbs of `spotbench`; each only calls the library and shows what came of it."""

import os
import sys
from collections.abc import Callable

import typer
from rich.markup import escape

from suite.cli import about, board, data, drafters, grids
from suite.cli.common import aside, show
from suite.errors import UserError

__all__ = ["app", "main", "show"]

app = typer.Typer(
    help="Benchmark speculative decoding of diffusion language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for part in (grids, drafters, about):
    app.add_typer(part.app)
app.add_typer(board.app, name="leaderboard")
app.add_typer(data.app, name="data")


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
