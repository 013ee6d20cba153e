"""``hypar strategies``."""

from __future__ import annotations

import click

from hypar.cli.commands.base import as_json
from hypar.cli.options import Command
from hypar.planning.strategies.base import load_strategy
from hypar.registry import plugin_names
from hypar.reports.listings.models import strategies_data, strategies_table
from hypar.reports.terminal import show, write_json


@click.command("strategies", cls=Command)
@as_json
def command(as_json: bool) -> None:
    """List the strategies with their space, cost and search."""
    named = {name: load_strategy(name) for name in plugin_names("strategies")}
    if as_json:
        write_json(strategies_data(named))
    else:
        show(strategies_table(named))
