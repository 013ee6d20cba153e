"""``hypar models``."""

from __future__ import annotations

import click

from hypar.cli.commands.base import as_json, complete_model
from hypar.cli.options import Command
from hypar.network.build import load_model
from hypar.registry import data_names
from hypar.reports.listings.models import layers_data, layers_table, models_data, models_table
from hypar.reports.terminal import show, write_json


@click.command("models", cls=Command)
@click.argument("model", required=False, shell_complete=complete_model)
@as_json
def command(model: str | None, as_json: bool) -> None:
    """List the models that come with hypar, or the layers of one MODEL."""
    if model is None:
        graphs = [load_model(name) for name in data_names("models")]
        data, table = models_data(graphs), models_table(graphs)
    else:
        graph = load_model(model)
        data, table = layers_data(graph), layers_table(graph)
    if as_json:
        write_json(data)
    else:
        show(table)
