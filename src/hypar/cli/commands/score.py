"""``hypar score``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hypar.cli.commands.base import as_json, complete_model, fit_option, judged, trace_option, writable
from hypar.cli.options import MACHINE, NETWORK, OUTPUT, Command, option
from hypar.cli.planning import change_option, convention_option, request_option
from hypar.errors import OptionError
from hypar.files.canvas import draw, require_plot
from hypar.files.text import require_writable, write_text
from hypar.network.training import OPTIMIZERS
from hypar.planning.replay import run_plan
from hypar.reports.formats.base import headline, unfit_line
from hypar.reports.listings.scores import score_data, score_page, timeline_csv
from hypar.reports.of.machines import times_document
from hypar.reports.terminal import note, progress_bar, show_document, show_page, write_json
from hypar.reports.traces import step_trace
from hypar.reports.views.score import timeline_figure
from hypar.studies.layers import layers_of

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
@fit_option
@as_json
def command(
    plan: str,
    layers: bool,
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
    title = headline(ran.plan)
    if picture is not None:
        _draw_picture(ran, picture)
    _write_files(ran, plot, trace)
    rows = [row for row in layers_of(ran) if "time_s" in row] if layers else []
    with judged([unfit_line(ran.score)], fit=fit, aside=as_json):
        if as_json:
            write_json(rows if layers else score_data(ran.score))
        elif layers:
            show_document(times_document(rows, title))
        else:
            show_page(score_page(ran))


def _draw_picture(ran: ScoredStep, file: str) -> None:
    """Write the picture of a plan, beside the time of data parallelism."""
    import hypar.reports.picture as drawing  # noqa: PLC0415 (only where it is asked for)
    from hypar.studies.comparison import baseline_score  # noqa: PLC0415 (as above)

    drawing.require_drawable(ran.plan)
    write_text(Path(file), drawing.picture(ran, baseline_score(ran)))
    note(f"wrote {file}")


def _write_files(ran: ScoredStep, timeline: str | None, trace: str | None) -> None:
    """Write the files that are asked for."""
    if trace is not None:
        write_text(Path(trace), step_trace(ran))
    if timeline is not None and timeline.endswith(".csv"):
        write_text(Path(timeline), timeline_csv(ran.timeline))
    elif timeline is not None:
        draw(timeline_figure(ran), timeline)
    for file in filter(None, (trace, timeline)):
        note(f"wrote {file}")
