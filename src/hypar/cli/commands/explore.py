"""``hypar explore``."""

from __future__ import annotations

from typing import Any

import click

from hypar.cli.commands.base import as_csv, as_json, complete_model, needed_hardware, plot_option
from hypar.cli.options import OUTPUT, SEARCH, Command, option, plugins
from hypar.cli.planning import counted_option, planning_options
from hypar.reports.of.exploration import document_of, exploration_rows
from hypar.reports.tables import csv_text
from hypar.reports.terminal import note, progress_bar, show_document, write, write_json
from hypar.studies.explore import explore_model


@click.command("explore", cls=Command)
@click.argument("model", shell_complete=complete_model)
@option("--vary", heading=SEARCH, multiple=True, required=True, metavar="LAYER[@LEVEL]",
              help="Layers and levels whose choices vary, as fc1, conv*@H2 or *@H1; may be repeated.")  # fmt: skip
@planning_options(
    strategy=option("--strategy", heading=SEARCH, default="hypar", names=plugins("strategies"), metavar="NAME", show_default=True,
                    help="Strategy whose plan gives the space and the fixed choices: {names}."),
    convention=counted_option,
)  # fmt: skip
@option(
    "--top",
    heading=OUTPUT,
    type=click.IntRange(min=1),
    default=10,
    metavar="N",
    show_default=True,
    help="Rows of the table.",
)
@plot_option
@as_csv
@as_json
def command(
    model: str,
    hardware: str | None,
    changes: dict[str, Any],
    top: int,
    plot: str | None,
    as_csv: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Score every combination of some choices in a plan of MODEL, the others fixed; the fastest come first."""
    machine = needed_hardware(hardware, changes)
    with progress_bar("exploring") as progress:
        found = explore_model(model, hardware=machine, progress=progress, **asked)
    if plot is not None:
        found.plot(plot)
        note(f"wrote {plot}")
    if as_json:
        write_json(exploration_rows(found))
    elif as_csv:
        write(csv_text(exploration_rows(found)), document=True)
    else:
        show_document(document_of(found, top))
