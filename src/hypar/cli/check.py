"""``hypar check``."""

from __future__ import annotations

import click

from hypar.check import check_plan
from hypar.cli.base import as_json, complete_model
from hypar.listings import verdict_data, verdict_lines
from hypar.terminal import note, write, write_json


@click.command("check")
@click.argument("plans", type=click.Path(), nargs=-1, required=True)
@click.option(
    "--model", shell_complete=complete_model, help="The model, if it is not found by the plan's model name."
)
@click.option("--update", is_flag=True, help="Rewrite the plans that drifted.")
@as_json
@click.pass_context
def command(
    ctx: click.Context, plans: tuple[str, ...], model: str | None, update: bool, as_json: bool
) -> None:
    """Plan again what stored PLANS record; exit 1 and show the difference where choices or costs drift."""
    verdicts = {file: check_plan(file, model=model) for file in plans}
    if as_json:
        write_json([verdict_data(file, verdict) for file, verdict in verdicts.items()])
    for file, verdict in verdicts.items():
        if not as_json:
            write("\n".join(verdict_lines(file, verdict)))
        if update and not verdict.ok:
            verdict.fresh.write(file)
            note(f"rewrote {file}")
    ctx.exit(0 if update or all(verdict.ok for verdict in verdicts.values()) else 1)
