"""``hypar reproduce``."""

from __future__ import annotations

from pathlib import Path

import click

from hypar.cli.commands.base import complete_plugin
from hypar.cli.options import OUTPUT, Command, option
from hypar.files.canvas import require_plot
from hypar.files.text import make_folder
from hypar.reports.terminal import note, progress_bar, write
from hypar.studies.papers.base import load_reproduction


@click.command("reproduce", cls=Command)
@click.argument("paper", shell_complete=complete_plugin("reproductions"))
@option("-o", "--output", heading=OUTPUT, type=click.Path(file_okay=False), metavar="FOLDER",
              help="Write the page and its plots to a folder instead of printing the page.")  # fmt: skip
def command(paper: str, output: str | None) -> None:
    """Repeat the evaluation in a PAPER: print its numbers beside hypar's, with the reason for each difference."""
    reproduction = load_reproduction(paper)
    if output is not None:
        make_folder(Path(output) / paper)
        require_plot(Path(output) / f"{paper}.png")
    with progress_bar(f"reproducing {paper}") as progress:
        page = reproduction.run(progress)
    if output is None:
        write(page.markdown(pictures=False), document=True)
    else:
        for file in page.write(output):
            note(f"wrote {file}")
