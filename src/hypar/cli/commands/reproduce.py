"""``hypar reproduce``: the name of the script that took its place."""

from __future__ import annotations

import click

from hypar.cli.options import OUTPUT, Command, option


class _GoneError(click.ClickException):
    """A command that is no more: one line, and the exit status of wrong usage."""

    exit_code = click.UsageError.exit_code


@click.command("reproduce", cls=Command)
@click.argument("paper")
@option("-o", "--output", heading=OUTPUT, metavar="FOLDER", help="Folder of the page and its figures.")
def command(paper: str, output: str | None) -> None:
    """Name the script that repeats the evaluation in a PAPER and prints its numbers beside hypar's."""
    folder = "" if output is None else f" -o {output}"
    script = f"python examples/papers/run.py {paper}{folder}"
    raise _GoneError(f"papers are computed by a script, in a clone of the repository: {script}")
