"""``hypar reproduce``."""

from __future__ import annotations

import click

from hypar.cli.base import complete_plugin
from hypar.reproductions.base import load_reproduction
from hypar.terminal import note, progress_bar, write


@click.command("reproduce")
@click.argument("paper", shell_complete=complete_plugin("reproductions"))
@click.option("-o", "--output", type=click.Path(file_okay=False), metavar="FOLDER",
              help="Write the page and its plots there instead of printing the page.")  # fmt: skip
def command(paper: str, output: str | None) -> None:
    """Run the evaluation of a PAPER again, as hypar: published numbers beside ours, with the reason for each miss."""
    with progress_bar(f"reproducing {paper}") as progress:
        page = load_reproduction(paper).run(progress)
    if output is None:
        write(page.markdown(pictures=False))
    else:
        for file in page.write(output):
            note(f"wrote {file}")
