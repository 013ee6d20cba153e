"""``hypar verify``."""

from __future__ import annotations

from typing import Any

import click

from hypar.cli.commands.base import as_json, complete_hardware, complete_model
from hypar.cli.options import MACHINE, NETWORK, OUTPUT, SEARCH, Command, option
from hypar.reports.of.verification import verification_data, verification_document
from hypar.reports.terminal import progress_bar, show_document, write_json
from hypar.sharding.conventions import CONVENTIONS
from hypar.studies.verify import verify_plan


@click.command("verify", cls=Command)
@click.argument("plan", type=click.Path())
@option(
    "--model",
    heading=NETWORK,
    shell_complete=complete_model,
    help="Model to use if the plan's model name is not found.",
)
@option(
    "--batch",
    heading=NETWORK,
    type=int,
    metavar="N",
    help="Samples in the mini-batch.  [default: the plan's; with --shrink the fewest]",
)
@option(
    "--shrink",
    heading=NETWORK,
    is_flag=True,
    help="Divide channels, image and mini-batch by powers of two; even cuts stay even.",
)
@option(
    "--hardware",
    heading=MACHINE,
    shell_complete=complete_hardware,
    metavar="FILE",
    help="Hardware file to use if the name in the plan's score is not found.",
)
@option(
    "--convention",
    heading=SEARCH,
    metavar="NAME",
    names=lambda: CONVENTIONS,
    help="What becomes of partial sums: {names}.  [default: as the plan's cost counts; moved for paper]",
)
@option("--count", heading=OUTPUT, is_flag=True, help="Count the bytes alone, and run nothing.")
@option(
    "--full",
    heading=OUTPUT,
    is_flag=True,
    help="Show each transfer, with a row for each level that it crosses.",
)
@as_json
@click.pass_context
def command(ctx: click.Context, /, plan: str, full: bool, as_json: bool, **asked: Any) -> None:
    """Run a step of a stored PLAN on simulated devices; exit 1 if its numbers, bytes or results are wrong, 3 on an error.

    The numbers must be those of one device, every level must move the bytes that are counted there, and the plan's
    cost and score must be those of its choices.
    """
    with progress_bar(f"verifying {plan}"):
        found = verify_plan(plan, **asked)
    if as_json:
        write_json(verification_data(found))
    else:
        show_document(verification_document(found, full=full), full=full)
    ctx.exit(0 if found.ok else 1)
