"""The command line: a thin skin, one file a command, imported when it is named."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import IO, Any

import click

from hypar import __version__
from hypar.errors import HyparError


class _Refusal(click.ClickException):
    """A deliberate error: one line on stderr, exit 1."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line."""
        click.echo(f"error: {self.format_message()}", file=file, err=file is None)


class _Commands(click.Group):
    """Finds commands by listing this folder."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names of the files."""
        files = Path(__file__).parent.glob("*.py")
        return sorted(file.stem for file in files if file.stem not in {"__init__", "base"})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"hypar.cli.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a deliberate error becomes one line."""
        try:
            return super().invoke(ctx)
        except HyparError as error:
            raise _Refusal(str(error)) from error


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120}
)
@click.version_option(__version__, prog_name="hypar")
def main() -> None:
    """Decide how each layer of a neural network is cut across each level of an accelerator array.

    Results go to stdout, remarks to stderr. Exit status: 0 done, 1 the answer is no or the input is wrong,
    2 wrong usage.
    """
