"""``hypar report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hypar import __version__
from hypar.cli.commands.base import complete_model, writable
from hypar.cli.options import NETWORK, OUTPUT, SEARCH, Command, option
from hypar.cli.planning import change_option, convention_option, request_option
from hypar.files.text import write_text
from hypar.reports.report import read_reported, report_page
from hypar.reports.terminal import note, progress_bar, write

STDOUT = "-"


def _page_file(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check before any work that the page can be written; ``-`` stands for stdout."""
    return None if value == STDOUT else writable(ctx, param, value)


@click.command("report", cls=Command)
@click.argument("plan", type=click.Path())
@option(
    "-o", "--output", heading=OUTPUT, type=click.Path(dir_okay=False, allow_dash=True), callback=_page_file, metavar="FILE",
    help="File of the page, as plan.html.  [default: stdout]",
)  # fmt: skip
@convention_option("the plan's own, else moved")
@request_option("hardware")
@change_option
@option(
    "--model",
    heading=NETWORK,
    shell_complete=complete_model,
    help="Model to use if the plan's model name is not found.",
)
@option(
    "--profile",
    heading=SEARCH,
    metavar="FILE",
    help="Measured times to use if the name in the plan's cost is not found.",
)
def command(plan: str, output: str | None, **named: Any) -> None:
    """Write a report of a stored PLAN: one HTML page, readable without a network, on paper and on a phone."""
    with progress_bar(f"reporting {plan}"):
        text = report_page(read_reported(plan, **named), __version__)
    if output is None:
        write(text, document=True)
        return
    write_text(Path(output), text)
    note(f"wrote {output}")
