"""``hypar completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from hypar.cli.options import Command
from hypar.reports.terminal import write


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a SHELL, for use as: eval "$(hypar completion bash)"."""
    found = get_completion_class(shell)
    if found is not None:
        write(found(ctx.find_root().command, {}, "hypar", "_HYPAR_COMPLETE").source())
