"""``hypar overlap``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hypar.cli.commands.base import as_json, complete_model, plot_option, trace_option
from hypar.cli.options import MACHINE, STAGES, Command, option
from hypar.cli.planning import change_option, convention_option, devices_option, request_option
from hypar.files.canvas import draw
from hypar.files.text import write_text
from hypar.reports.listings.overlaps import (
    overlap_answer,
    overlap_data,
    overlap_head,
    overlap_notes,
    overlap_table,
)
from hypar.reports.listings.timelines import resources_figure
from hypar.reports.terminal import note, progress_bar, show, write_json
from hypar.schedule.chunks.exchanges import EXCHANGES
from hypar.studies.overlap.run import MANNERS, overlap_model

if TYPE_CHECKING:
    from hypar.studies.overlap.result import Overlap


@click.command("overlap", cls=Command)
@click.argument("model", shell_complete=complete_model)
@request_option("hardware")
@change_option
@devices_option
@request_option("batch")
@option(
    "--table",
    heading=MACHINE,
    type=click.Path(),
    metavar="FILE",
    help="Measured times, .yaml or .csv, in place of the machine's.",
)
@option(
    "--exchange",
    heading=STAGES,
    metavar="NAME",
    names=lambda: EXCHANGES,
    help="Exchange of the chunks: serial (chunks share the links) or independent (chunks do not delay each other).  [default: the machine's]",
)
@option(
    "--chunks",
    heading=STAGES,
    default="best",
    metavar="CHUNKS",
    show_default=True,
    names=lambda: MANNERS,
    help="Chunks of gradients: best, layers (one chunk per layer), one or none, or a number of layers.",
)
@convention_option("moved")
@plot_option
@trace_option
@as_json
def command(model: str, plot: str | None, trace: str | None, as_json: bool, **asked: Any) -> None:
    """Exchange the gradients of MODEL in chunks while the backward phase computes, and find the fastest chunks."""
    if trace is not None and trace == plot:
        raise click.UsageError("--plot and --trace name one file")
    with progress_bar("finding the fastest chunks"):
        found = overlap_model(model, **asked)
    _write_files(found, plot, trace)
    if as_json:
        write_json(overlap_data(found))
    else:
        show(overlap_table(found), above=overlap_answer(found), below=overlap_notes(found))


def _write_files(found: Overlap, plot: str | None, trace: str | None) -> None:
    """Write the files that are asked for."""
    if trace is not None:
        write_text(Path(trace), found.timeline.to_chrome_trace())
    if plot is not None:
        draw(resources_figure(overlap_head(found), found.timeline), plot)
    for file in filter(None, (trace, plot)):
        note(f"wrote {file}")
