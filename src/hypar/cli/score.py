"""``hypar score``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hypar.cli.base import as_json, complete_model, hardware_options, named_machine
from hypar.files import write_text
from hypar.listings.scores import score_data, timeline_csv
from hypar.plan import read_plan
from hypar.plots import draw_timeline
from hypar.reports.base import headline, score_lines
from hypar.scoring import run_plan
from hypar.terminal import note, write, write_json


@click.command("score")
@click.argument("plan", type=click.Path())
@hardware_options
@click.option(
    "--model", shell_complete=complete_model, help="The model, if it is not found by the plan's model name."
)
@click.option(
    "--timeline", type=click.Path(dir_okay=False), metavar="FILE",
    help="Draw when every task runs, as .png, .svg or .pdf; FILE.csv lists the tasks.",
)  # fmt: skip
@click.option(
    "--trace", type=click.Path(dir_okay=False), metavar="FILE", help="Write a Chrome trace for Perfetto."
)
@as_json
def command(
    plan: str,
    hardware: str | None,
    changes: dict[str, Any],
    timeline: str | None,
    trace: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Run one training step of a stored PLAN on a machine: its time, energy, bytes moved and memory."""
    score, ran = run_plan(plan, hardware=named_machine(hardware, changes), **asked)
    title = headline(read_plan(plan))
    if trace is not None:
        write_text(Path(trace), ran.to_chrome_trace())
        note(f"wrote {trace}")
    if timeline is not None and timeline.endswith(".csv"):
        write_text(Path(timeline), timeline_csv(ran))
    elif timeline is not None:
        draw_timeline(ran, title, timeline)
    if timeline is not None:
        note(f"wrote {timeline}")
    if as_json:
        write_json(score_data(score))
    else:
        write("\n".join([title, *score_lines(score)]))
