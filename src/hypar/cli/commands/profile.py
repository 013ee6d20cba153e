"""``hypar profile``."""

from __future__ import annotations

from typing import Any

import click

from hypar.cli.commands.base import as_json, complete_model, writable
from hypar.cli.options import ARRAY, MACHINE, OUTPUT, SEARCH, Command, option
from hypar.cli.planning import request_option
from hypar.plan.request import PARAMETERS
from hypar.reports.of.profiles import document_of
from hypar.reports.terminal import note, progress_bar, show_document, write
from hypar.studies.profile import profile_model


@click.command("profile", cls=Command)
@click.argument("model", shell_complete=complete_model)
@option(
    "--ways",
    heading=ARRAY,
    type=int,
    default=16,
    metavar="N",
    show_default=True,
    help="Devices of the level.",
)
@request_option("batch")
@option(
    "--space",
    heading=SEARCH,
    metavar="DIMS",
    names=PARAMETERS["space"].names,
    help="Choices to measure: one or several of {names}, as --space of hypar plan.  [default: those of the strategy deepa]",
)
@option(
    "--repeats",
    heading=MACHINE,
    type=int,
    default=3,
    metavar="N",
    show_default=True,
    help="Measurements of every shard; the shortest time counts.",
)
@option(
    "-o",
    "--output",
    heading=OUTPUT,
    type=click.Path(dir_okay=False),
    callback=writable,
    help="Write the times to a file.",
)
@as_json
def command(model: str, output: str | None, as_json: bool, **asked: Any) -> None:
    """Measure with PyTorch, on this machine, the time of a device's shard of each layer of MODEL under each choice."""
    with progress_bar("measuring") as progress:
        profile = profile_model(model, progress=progress, **asked)
    if output is not None:
        profile.write(output)
        note(f"wrote {output}")
    if as_json:
        write(profile.to_json(), document=True)
    else:
        show_document(document_of(profile))
