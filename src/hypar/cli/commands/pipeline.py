"""``hypar pipeline``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hypar.cli.commands.base import (
    as_json,
    complete_model,
    needed_hardware,
    plot_option,
    trace_option,
)
from hypar.cli.options import STAGES, Command, option
from hypar.cli.planning import (
    convention_option,
    hardware_options,
    request_option,
)
from hypar.files.canvas import draw
from hypar.files.text import write_text
from hypar.network.build import load_model
from hypar.plan.stages import FLUSHES
from hypar.planning.replay import run_plan
from hypar.reports.listings.pipelines import pipeline_head, pipeline_notes, pipeline_table
from hypar.reports.terminal import note, progress_bar, show, write
from hypar.reports.traces import step_trace
from hypar.reports.views.score import timeline_figure
from hypar.studies.pipeline import SCHEDULE, data_parallel_score, pipeline_model

if TYPE_CHECKING:
    from hypar.planning.replay import ScoredStep


@click.command("pipeline", cls=Command)
@click.argument("model", shell_complete=complete_model)
@option(
    "--stages", heading=STAGES, type=int, metavar="N", help="Number of stages, one device each.  [default: 4]"
)
@request_option("starts")
@request_option("balance")
@option(
    "--schedule",
    heading=STAGES,
    default=SCHEDULE,
    metavar="NAME",
    show_default=True,
    names=lambda: FLUSHES,
    help="Order of the stages' work: {names}.",
)
@option("--microbatches", heading=STAGES, type=int, metavar="N",
              help="Microbatches in a mini-batch, for gpipe, 1f1b and interleaved.  [default: the number of stages, or the next smaller divisor of the batch]")  # fmt: skip
@request_option("parts")
@request_option("batch")
@hardware_options
@convention_option("moved")
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
    """Plan MODEL in stages of one device each, as plan --stages N --levels 0 does, and show what each stage holds."""
    if trace is not None and trace == plot:
        raise click.UsageError("--plot and --trace name one file")
    network, machine = load_model(model), needed_hardware(hardware, changes)
    with progress_bar("dividing into stages"):
        plan = pipeline_model(network, hardware=machine, **asked)
    ran = run_plan(plan, hardware=machine, model=network)
    _write_files(ran, plot, trace)
    if as_json:
        write(plan.to_json(), document=True)
        return
    against = data_parallel_score(plan, network, machine)
    show(pipeline_table(ran), above=pipeline_head(plan), below=pipeline_notes(plan, against))


def _write_files(ran: ScoredStep, plot: str | None, trace: str | None) -> None:
    """Write the files that are asked for."""
    if trace is not None:
        write_text(Path(trace), step_trace(ran))
    if plot is not None:
        draw(timeline_figure(ran), plot)
    for file in filter(None, (trace, plot)):
        note(f"wrote {file}")
