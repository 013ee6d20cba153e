"""``hypar pipeline``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hypar.cli.commands.base import (
    as_json,
    complete_model,
    like_machine,
    needed_machine,
    plot_option,
    trace_option,
)
from hypar.cli.options import STAGES, Command, option
from hypar.cli.planning import batch_option, convention_option, hardware_options
from hypar.files.canvas import draw
from hypar.files.text import write_text
from hypar.plan.splits import FLUSHES
from hypar.reports.listings.pipelines import (
    pipeline_data,
    pipeline_head,
    pipeline_notes,
    pipeline_table,
    stages_timeline,
)
from hypar.reports.listings.timelines import resources_figure
from hypar.reports.terminal import note, progress_bar, show, write_json
from hypar.studies.pipeline.costs import BALANCES
from hypar.studies.pipeline.divide import pipeline_model

if TYPE_CHECKING:
    from hypar.studies.pipeline.result import Pipeline


@click.command("pipeline", cls=Command)
@click.argument("model", shell_complete=complete_model)
@option(
    "--stages", heading=STAGES, type=int, metavar="N", help="Number of stages, one device each.  [default: 4]"
)
@option(
    "--starts",
    heading=STAGES,
    metavar="LAYERS",
    help="First layers of the stages, as conv1,conv3,fc1, instead of the best partition.",
)
@option(
    "--balance",
    heading=STAGES,
    metavar="NAME",
    names=lambda: BALANCES,
    help="Quantity to minimise in the costliest stage: time, memory, traffic or macs.  [default: time, without --hardware macs]",
)
@option(
    "--schedule",
    heading=STAGES,
    default="layer-block",
    metavar="NAME",
    show_default=True,
    names=lambda: FLUSHES,
    help="Order of the stages' work: {names}.",
)
@option("--microbatches", heading=STAGES, type=int, metavar="N",
              help="Microbatches in a mini-batch, for gpipe and 1f1b.  [default: the number of stages, or the next smaller divisor of the batch]")  # fmt: skip
@batch_option
@hardware_options
@convention_option("paper")
@plot_option
@trace_option
@as_json
def command(
    model: str,
    hardware: str | None,
    changes: dict[str, Any],
    plot: str | None,
    trace: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Divide MODEL into the stages of a pipeline, and show what each stage stores, sends and waits for."""
    if trace is not None and trace == plot:
        raise click.UsageError("--plot and --trace name one file")
    machine = (needed_machine if plot or trace else like_machine)(hardware, changes)
    with progress_bar("dividing into stages"):
        found = pipeline_model(model, hardware=machine, **asked)
    _write_files(found, plot, trace)
    if as_json:
        write_json(pipeline_data(found))
    else:
        show(pipeline_table(found), above=pipeline_head(found), below=pipeline_notes(found))


def _write_files(found: Pipeline, plot: str | None, trace: str | None) -> None:
    """Write the files that are asked for."""
    if trace is not None:
        write_text(Path(trace), found.timeline.to_chrome_trace())
    if plot is not None:
        draw(resources_figure(pipeline_head(found), stages_timeline(found.timeline)), plot)
    for file in filter(None, (trace, plot)):
        note(f"wrote {file}")
