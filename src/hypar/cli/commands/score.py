"""``hypar score``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hypar.cli.commands.base import (
    as_json,
    change_option,
    complete_model,
    fit_option,
    judged,
    machine_option,
    writable,
)
from hypar.files.figures import draw_timeline, require_plot
from hypar.files.text import require_writable, write_text
from hypar.planning.replay import run_plan
from hypar.reports.formats.base import headline, unfit_line
from hypar.reports.listings.machines import layer_times_data, layer_times_table
from hypar.reports.listings.scores import score_data, score_page, timeline_csv
from hypar.reports.terminal import note, show, show_page, write_json

if TYPE_CHECKING:
    from hypar.timeline import Timeline


def _timeline_file(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Check before any work that a file for a table or a plot can be written."""
    if value is not None and value.endswith(".csv"):
        require_writable(Path(value))
    elif value is not None:
        require_plot(value, also=".csv")
    return value


@click.command("score")
@click.argument("plan", type=click.Path())
@machine_option
@change_option
@click.option(
    "--optimizer", metavar="NAME", help="sgd, momentum or adam.  [default: the plan's own, else sgd]"
)
@click.option(
    "--model", shell_complete=complete_model, help="Model to use if the plan's model name is not found."
)
@click.option(
    "--layers", is_flag=True, help="Show the mapping of each layer's shard to a device, phase by phase."
)
@click.option(
    "--timeline", type=click.Path(dir_okay=False), callback=_timeline_file, metavar="FILE",
    help="Plot the start and end of every task, as .png, .svg or .pdf; FILE.csv lists the tasks.",
)  # fmt: skip
@click.option(
    "--trace",
    type=click.Path(dir_okay=False),
    callback=writable,
    metavar="FILE",
    help="Write a Chrome trace for Perfetto.",
)
@fit_option
@as_json
def command(
    plan: str,
    layers: bool,
    fit: bool,
    timeline: str | None,
    trace: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Simulate one training step of a stored PLAN on a machine: its time, energy, communication and memory."""
    if trace is not None and trace == timeline:
        raise click.UsageError("--timeline and --trace name one file")
    ran = run_plan(plan, **asked)
    title = headline(ran.plan)
    _write_files(ran.timeline, title, timeline, trace)
    with judged([unfit_line(ran.score)], fit=fit, aside=as_json):
        if as_json:
            write_json(layer_times_data(ran) if layers else score_data(ran.score))
        elif layers:
            show(layer_times_table(ran), above=title)
        else:
            show_page(score_page(ran))


def _write_files(ran: Timeline, title: str, timeline: str | None, trace: str | None) -> None:
    """Write the files that are asked for."""
    if trace is not None:
        write_text(Path(trace), ran.to_chrome_trace())
    if timeline is not None and timeline.endswith(".csv"):
        write_text(Path(timeline), timeline_csv(ran))
    elif timeline is not None:
        draw_timeline(ran, title, timeline)
    for file in filter(None, (trace, timeline)):
        note(f"wrote {file}")
