"""``hypar diff``."""

from __future__ import annotations

import click

from hypar.cli.commands.base import as_json
from hypar.cli.options import Command
from hypar.plan.diff import diff_plans
from hypar.plan.plan import read_plan
from hypar.reports.of.diff import difference_document
from hypar.reports.terminal import show_document, write, write_json


@click.command("diff", cls=Command)
@click.argument("before", type=click.Path())
@click.argument("after", type=click.Path())
@as_json
def command(before: str, after: str, as_json: bool) -> None:
    """Show the layers and levels in which two stored plans differ, and the change in cost; always exit 0."""
    plans = read_plan(before), read_plan(after)
    changes = diff_plans(*plans)
    if as_json:
        write_json([change.to_data() for change in changes])
    elif changes:
        show_document(difference_document((before, after), plans, changes))
    else:
        write("the plans are equal")
