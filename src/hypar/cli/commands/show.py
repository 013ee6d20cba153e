"""``hypar show``."""

from __future__ import annotations

import click

from hypar.cli.commands.base import as_json, full_option
from hypar.cli.options import OUTPUT, Command, option
from hypar.plan.plan import read_plan
from hypar.reports.of.plan import plan_document
from hypar.reports.renderers import FORMS, rendered
from hypar.reports.terminal import show_shortened, write
from hypar.reports.words import MOST_ROWS


@click.command("show", cls=Command)
@click.argument("plan", type=click.Path())
@option("--format", "form", heading=OUTPUT, default="table", names=lambda: FORMS, metavar="NAME", show_default=True,
              help="How to write it: {names}.")  # fmt: skip
@full_option
@as_json
def command(plan: str, form: str, full: bool, as_json: bool) -> None:
    """Show a stored PLAN."""
    stored = read_plan(plan)
    if as_json:
        write(stored.to_json(), document=True)
        return
    document = plan_document(stored, full=full)
    if form == "table":
        show_shortened(document, full=full, folded=len(stored.layers) > MOST_ROWS)
    else:
        write(rendered(document, form, full=full), document=True)
