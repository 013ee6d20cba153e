"""``hypar strategies``."""

from __future__ import annotations

import click

from hypar.cli.commands.base import as_json
from hypar.cli.options import Command
from hypar.planning.strategies.base import load_strategy
from hypar.registry import plugin_names
from hypar.reports.of.strategies import strategies_data, strategies_document
from hypar.reports.terminal import show_document, write_json


@click.command("strategies", cls=Command)
@as_json
def command(as_json: bool) -> None:
    """List the strategies with their space, cost and search."""
    named = {name: load_strategy(name) for name in plugin_names("strategies")}
    if as_json:
        write_json(strategies_data(named))
    else:
        show_document(strategies_document(named))
