"""``hypar show``."""

from __future__ import annotations

import click

from hypar.cli.commands.base import as_json, full_option, judged
from hypar.cli.options import OUTPUT, Command, option, plugins
from hypar.plan.plan import read_plan
from hypar.reports.formats.base import unfit_line
from hypar.reports.formats.tabular.page import plan_page
from hypar.reports.terminal import show_page, write


@click.command("show", cls=Command)
@click.argument("plan", type=click.Path())
@option("--format", "report", heading=OUTPUT, default="table", names=plugins("reports"), metavar="NAME", show_default=True,
              help="Report to write: {names}.")  # fmt: skip
@full_option
@as_json
def command(plan: str, report: str, full: bool, as_json: bool) -> None:
    """Show a stored PLAN."""
    stored = read_plan(plan)
    if as_json:
        write(stored.to_json(), document=True)
    elif report == "table":
        with judged([unfit_line(stored.score)], fit=False, aside=False):
            show_page(plan_page(stored, full=full))
    else:
        write(stored.render(report), document=True)
