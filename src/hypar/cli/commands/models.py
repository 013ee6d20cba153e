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
        write_json(models_data(graphs)) if as_json else show(models_table(graphs))
    else:
        graph = load_model(model)
        write_json(layers_data(graph)) if as_json else show(layers_table(graph))
