"""``hypar export``."""

from __future__ import annotations

from typing import Any

import click

from hypar.cli.commands.base import as_json, complete_model
from hypar.cli.options import NETWORK, OUTPUT, Command, option, plugins
from hypar.network.training import PHASES
from hypar.reports.exports.base import export_plan
from hypar.reports.of.exports import document_of, export_data
from hypar.reports.terminal import note, progress_bar, show_document, write_json


@click.command("export", cls=Command)
@click.argument("plan", type=click.Path())
@option("--format", heading=OUTPUT, default="scale_sim", names=plugins("exports"), metavar="NAME", show_default=True,
              help="Tool to write for: {names}.")  # fmt: skip
@option("-o", "--output", heading=OUTPUT, required=True, type=click.Path(), metavar="PATH",
              help="File to write; for timeloop a folder, with a file for each problem.")  # fmt: skip
@option(
    "--layer",
    heading=NETWORK,
    default="*",
    metavar="LAYER",
    help="Layer to write, or a pattern, as conv*.  [default: all with weights]",
)
@option(
    "--phase",
    heading=NETWORK,
    metavar="NAME",
    names=lambda: PHASES,
    help="Phase to write: {names}.  [default: all that the format can express]",
)
@option(
    "--model",
    heading=NETWORK,
    shell_complete=complete_model,
    help="Model to use if the plan's model name is not found.",
)
@as_json
def command(plan: str, output: str, as_json: bool, **asked: Any) -> None:
    """Write the piece of each layer that a device of a stored PLAN computes, for SCALE-Sim or Timeloop."""
    with progress_bar(f"exporting {plan}"):
        found = export_plan(plan, output, **asked)
    note(f"wrote {output}")
    if as_json:
        write_json(export_data(found))
    else:
        show_document(document_of(found))
