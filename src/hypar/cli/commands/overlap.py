"""``hypar overlap``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hypar.cli.commands.base import (
    as_json,
    batch_option,
    change_option,
    complete_model,
    devices_option,
    machine_option,
    plot_option,
    writable,
)
from hypar.files.figures import draw_timeline
from hypar.files.text import write_text
from hypar.reports.listings.overlaps import (
    overlap_answer,
    overlap_data,
    overlap_head,
    overlap_notes,
    overlap_table,
)
from hypar.reports.terminal import note, show, write_json
from hypar.studies.overlap.run import overlap_model

if TYPE_CHECKING:
    from hypar.studies.overlap.result import Overlap


@click.command("overlap")
@click.argument("model", shell_complete=complete_model)
@machine_option
@change_option
@devices_option
@batch_option
@click.option(
    "--table", type=click.Path(), metavar="FILE", help="Measured times, .yaml or .csv, instead of a machine."
)
@click.option(
    "--exchange",
    default="serial",
    metavar="NAME",
    show_default=True,
    help="serial (all chunks share one link) or independent (chunks do not delay each other).",
)
@click.option(
    "--chunks",
    default="best",
    metavar="CHUNKS",
    show_default=True,
    help="best, layers (one chunk per layer), none, search (for a size), or a number of layers.",
)
@click.option(
    "--search-step",
    type=int,
    metavar="N",
    help="Try every size up to N, then its multiples.  [default: 10]",
)
@click.option(
    "--search-range", type=int, metavar="N", help="Stop the search N steps past the best size.  [default: 5]"
)
@click.option(
    "--search-interval", type=int, metavar="N", help="Train N iterations with each size.  [default: 10]"
)
@plot_option
@click.option(
    "--trace",
    type=click.Path(dir_okay=False),
    callback=writable,
    metavar="FILE",
    help="Write a Chrome trace for Perfetto.",
)
@as_json
def command(model: str, plot: str | None, trace: str | None, as_json: bool, **asked: Any) -> None:
    """Exchange the gradients of MODEL in chunks while the backward phase computes, and find the fastest chunks."""
    if trace is not None and trace == plot:
        raise click.UsageError("--plot and --trace name one file")
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
        draw_timeline(found.timeline, overlap_head(found), plot)
    for file in filter(None, (trace, plot)):
        note(f"wrote {file}")
