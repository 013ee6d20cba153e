"""``hypar check``."""

from __future__ import annotations

import click

from hypar.cli.commands.base import (
    as_json,
    complete_hardware,
    complete_model,
)
from hypar.cli.options import MACHINE, NETWORK, OUTPUT, SEARCH, Command, option
from hypar.errors import HyparError
from hypar.reports.listings.plans import verdict_data, verdict_lines
from hypar.reports.terminal import note, write, write_json
from hypar.studies.check import Verdict, check_plan


@click.command("check", cls=Command)
@click.argument("plans", type=click.Path(), nargs=-1, required=True)
@option(
    "--model",
    heading=NETWORK,
    shell_complete=complete_model,
    help="Model to use if the plan's model name is not found.",
)
@option(
    "--hardware",
    heading=MACHINE,
    shell_complete=complete_hardware,
    metavar="FILE",
    help="Hardware file to use if the name in the plans' scores is not found.",
)
@option(
    "--profile",
    heading=SEARCH,
    type=click.Path(),
    metavar="FILE",
    help="Measured times to use if the name in the plans' costs is not found.",
)
@option("--update", heading=OUTPUT, is_flag=True, help="Rewrite the plans that drifted; exit 0.")
@as_json
@click.pass_context
def command(
    ctx: click.Context,
    plans: tuple[str, ...],
    model: str | None,
    hardware: str | None,
    profile: str | None,
    update: bool,
    as_json: bool,
) -> None:
    """Plan again from the requests in stored PLANS; exit 1 and list the differences on drift, 3 on an error."""
    findings, statuses = [], []
    for file in plans:
        verdict = judge(file, model=model, hardware=hardware, profile=profile)
        findings.append(verdict_data(file, verdict))
        if isinstance(verdict, HyparError):
            click.echo(f"error: {verdict}", err=True)
            statuses.append(verdict.exit_status)
            continue
        if not as_json:
            write("\n".join(verdict_lines(file, verdict)))
        statuses.append(0 if verdict.ok or update else 1)
        if update and not verdict.ok:
            verdict.fresh.write(file)
            note(f"rewrote {file}")
            findings[-1]["rewritten"] = True
    if as_json:
        write_json(findings)
    ctx.exit(max(statuses))


def judge(file: str, **found: str | None) -> Verdict | HyparError:
    """Return the verdict on one plan, or the error that prevents one, so that the other plans are still checked."""
    try:
        return check_plan(file, **found)
    except HyparError as error:
        return error
