"""``hypar models``."""

from __future__ import annotations

import click

from hypar.cli.commands.base import as_json, complete_model
from hypar.cli.options import Command
from hypar.network.build import load_model
from hypar.registry import data_names
from hypar.reports.of.models import document_of, models_document
from hypar.reports.terminal import show_document, write_json


@click.command("models", cls=Command)
@click.argument("model", required=False, shell_complete=complete_model)
@as_json
def command(model: str | None, as_json: bool) -> None:
    """List the models that come with hypar, or the layers of one MODEL."""
    if model is None:
        found = models_document(load_model(name) for name in data_names("models"))
    else:
        found = document_of(load_model(model))
    write_json(found.records()) if as_json else show_document(found)
