"""``hypar compare``."""

from __future__ import annotations

from typing import Any

import click

from hypar.cli.commands.base import (
    as_json,
    complete_model,
    fit_option,
    judged,
    named_machine,
    require_hardware,
)
from hypar.cli.options import SEARCH, Command, option, plugins
from hypar.cli.planning import counted_option, planning_options
from hypar.reports.listings.plans import (
    comparison_data,
    comparison_head,
    comparison_notes,
    comparison_table,
    comparison_unfit,
)
from hypar.reports.listings.scores import score_table
from hypar.reports.terminal import progress_bar, show, write_json
from hypar.studies.comparison import compare_strategies


@click.command("compare", cls=Command)
@click.argument("model", shell_complete=complete_model)
@planning_options(
    strategy=option("--strategy", "strategies", heading=SEARCH, multiple=True, names=plugins("strategies"), metavar="NAME",
                    help="Strategy to compare with dp; may be repeated: {names}.  [default: all with dp's cost]"),
    convention=counted_option,
)  # fmt: skip
@fit_option
@as_json
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    hardware: str | None,
    changes: dict[str, Any],
    fit: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Plan MODEL by several strategies and show them side by side, relative to dp."""
    require_hardware(ctx, fit=fit)
    with progress_bar("comparing") as progress:
        machine = named_machine(hardware, changes)
        rows = compare_strategies(model, hardware=machine, progress=progress, **asked)
    with judged(comparison_unfit(rows), fit=fit, aside=as_json):
        if as_json:
            write_json(comparison_data(rows))
        else:
            table = score_table(rows) if hardware else comparison_table(rows)
            show(table, above=comparison_head(rows), below=comparison_notes(rows))
