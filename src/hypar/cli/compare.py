"""``hypar compare``."""

from __future__ import annotations

from typing import Any

import click

from hypar.cli.base import (
    array_options,
    as_json,
    complete_model,
    complete_plugin,
    hardware_options,
    named_machine,
)
from hypar.comparison import compare_strategies
from hypar.listings.plans import comparison_data, comparison_head, comparison_notes, comparison_table
from hypar.listings.scores import score_table
from hypar.terminal import show, write_json


@click.command("compare")
@click.argument("model", shell_complete=complete_model)
@array_options
@click.option("--strategy", "strategies", multiple=True, shell_complete=complete_plugin("strategies"), metavar="NAME",
              help="Only this strategy beside dp; may be given again.")  # fmt: skip
@hardware_options
@as_json
def command(model: str, hardware: str | None, changes: dict[str, Any], as_json: bool, **asked: Any) -> None:
    """Plan MODEL by several strategies and show them side by side, relative to dp."""
    rows = compare_strategies(model, hardware=named_machine(hardware, changes), **asked)
    if as_json:
        write_json(comparison_data(rows))
    else:
        table = score_table(rows) if hardware else comparison_table(rows)
        show(table, above=comparison_head(rows), below=comparison_notes(rows))
