"""``hypar score``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hypar.cli.commands.base import (
    as_json,
    complete_model,
    exit_if_unfit,
    fit_option,
    full_option,
    trace_option,
    writable,
)
from hypar.cli.options import MACHINE, NETWORK, OUTPUT, Command, option
from hypar.cli.planning import change_option, convention_option, request_option
from hypar.errors import OptionError
from hypar.files.text import require_writable, write_text
from hypar.network.training import OPTIMIZERS
from hypar.planning.replay import run_plan
from hypar.reports.of.machines import times_document
from hypar.reports.of.score import score_document, timeline_csv
from hypar.reports.plots import plot as draw
from hypar.reports.plots import require_plot
from hypar.reports.terminal import note, progress_bar, show_document, show_shortened, write_json
from hypar.reports.trace import step_trace
from hypar.reports.words import headline
from hypar.studies.step import StepRows

if TYPE_CHECKING:
    from hypar.planning.replay import ScoredStep


def _timeline_file(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Check before any work that a file for a table or a plot can be written."""
    if value is not None and value.endswith(".csv"):
        require_writable(Path(value))
    elif value is not None:
        require_plot(value, also=".csv")
    return value


def _picture_file(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check before any work that a picture can be written."""
    if value is not None and not value.endswith(".svg"):
        raise OptionError("picture", f"found the file {value!r}", "a name that ends in .svg")
    return writable(ctx, param, value)


@click.command("score", cls=Command)
@click.argument("plan", type=click.Path())
@request_option("hardware")
@change_option
@option(
    "--optimizer",
    heading=MACHINE,
    metavar="NAME",
    names=lambda: OPTIMIZERS,
    help="Optimizer, for updates and memory: {names}.  [default: the plan's own, else sgd]",
)
@convention_option("the plan's own, else moved")
@option(
    "--model",
    heading=NETWORK,
    shell_complete=complete_model,
    help="Model to use if the plan's model name is not found.",
)
@option(
    "--layers",
    heading=OUTPUT,
    is_flag=True,
    help="Show the mapping of each layer's shard to a device, phase by phase.",
)
@option("--plot", heading=OUTPUT, type=click.Path(dir_okay=False), callback=_timeline_file, metavar="FILE",
    help="Plot the start and end of every task, as .png, .svg or .pdf; FILE.csv lists the tasks.",
)  # fmt: skip
@trace_option
@option(
    "--picture",
    heading=OUTPUT,
    type=click.Path(dir_okay=False),
    callback=_picture_file,
    metavar="FILE",
    help="Draw the plan beside its step, layer by layer, as an SVG.",
)
@full_option
@fit_option
@as_json
def command(
    plan: str,
    layers: bool,
    full: bool,
    fit: bool,
    plot: str | None,
    trace: str | None,
    picture: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Simulate one training step of a stored PLAN on a machine: its time, energy, communication and memory."""
    files = [file for file in (plot, trace, picture) if file is not None]
    if len({*files}) < len(files):
        raise click.UsageError("two of --plot, --trace and --picture name one file")
    with progress_bar(f"scoring {plan}"):
        ran = run_plan(plan, **asked)
    if picture is not None:
        _draw_picture(ran, picture)
    _write_files(ran, plot, trace)
    rows = [row for row in StepRows(ran).phases if "time_s" in row] if layers else []
    if as_json:
        write_json(rows if layers else ran.score.to_data())
    elif layers:
        show_document(times_document(rows, headline(ran.plan)))
    else:
        show_shortened(score_document(ran.score, ran.plan, ran), full=full)
    exit_if_unfit(ran.score, fit=fit, as_data=as_json or layers)


def _draw_picture(ran: ScoredStep, file: str) -> None:
    """Write the picture of a plan, beside the time of data parallelism."""
    from hypar.reports.report import picture_document  # noqa: PLC0415 (only where it is asked for)

    draw(picture_document(ran), Path(file))
    note(f"wrote {file}")


def _write_files(ran: ScoredStep, timeline: str | None, trace: str | None) -> None:
    """Write the files that are asked for."""
    if trace is not None:
        write_text(Path(trace), step_trace(ran))
    if timeline is not None and timeline.endswith(".csv"):
        write_text(Path(timeline), timeline_csv(ran.timeline))
    elif timeline is not None:
        draw(score_document(ran.score, ran.plan, ran), Path(timeline))
    for file in filter(None, (trace, timeline)):
        note(f"wrote {file}")
