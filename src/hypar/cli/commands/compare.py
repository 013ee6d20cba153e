"""``hypar compare``."""

from __future__ import annotations

from typing import Any

import click

from hypar.cli.commands.base import (
    as_json,
    complete_model,
    fit_option,
    named_machine,
    require_hardware,
)
from hypar.cli.options import SEARCH, Command, option, plugins
from hypar.cli.planning import counted_option, planning_options
from hypar.reports.of.comparison import comparison_data, unfit_lines
from hypar.reports.terminal import progress_bar, show_document, warn, write_json
from hypar.studies.grid import compare_strategies


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
    lines = unfit_lines(rows)
    if as_json:
        for line in lines:
            warn(line, to_stderr=True)
        write_json(comparison_data(rows))
    else:
        show_document(rows.document())
    ctx.exit(int(fit and bool(lines)))
