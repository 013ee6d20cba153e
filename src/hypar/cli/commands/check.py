"""``hypar check``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hypar.cli.commands.base import (
    as_json,
    complete_hardware,
    complete_model,
)
from hypar.cli.options import MACHINE, NETWORK, OUTPUT, SEARCH, Command, option
from hypar.errors import HyparError, OptionError, shown
from hypar.reports.of.diff import verdict_data, verdict_document
from hypar.reports.terminal import note, progress_bar, show_document, write, write_json
from hypar.studies.check import Verdict, check_plan, plans_below

if TYPE_CHECKING:
    from collections.abc import Iterator


def _share(_ctx: click.Context, _param: click.Parameter, value: str) -> float:
    """Read ``1e-6`` or ``1%``."""
    number, percent, rest = value.partition("%")
    try:
        return float(number) / (100 if percent and not rest.strip() else 1)
    except ValueError:
        raise OptionError("tolerance", f"found {shown(value)}", "a share, as 1e-6 or 1%") from None


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
@option(
    "--tolerance",
    heading=OUTPUT,
    default="0",
    callback=_share,
    metavar="SHARE",
    help="Relative difference up to which costs, bytes, seconds and joules are no drift, as 1e-6 or 1%. Choices are never tolerated.",
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
    tolerance: float,
    update: bool,
    as_json: bool,
) -> None:
    """Plan again from the requests in stored PLANS; exit 1 and list the differences on drift, 3 on an error.

    Every plan below a folder is checked; its other .json files are skipped.
    """
    findings, statuses, drifted = [], [], []
    for file, error in _each(plans):
        with progress_bar(f"checking {file}"):
            verdict = error or judge(file, model, hardware, profile, tolerance)
        if isinstance(verdict, HyparError):
            findings.append({"plan": file, "ok": False, "error": str(verdict)})
            for line in str(verdict).splitlines():
                note(f"error: {line if line.startswith(file) else f'{file}: {line}'}", style="")
            statuses.append(verdict.exit_status)
            continue
        findings.append(verdict_data(file, verdict))
        statuses.append(0 if verdict.ok or update else 1)
        if not as_json:
            show_document(verdict_document(file, verdict))
        for text in verdict.notes:
            note(f"{file}: {text}")
        if not verdict.ok:
            drifted.append(file)
            if update:
                verdict.fresh.write(file)
                note(f"rewrote {file}")
                findings[-1]["rewritten"] = True
    if as_json:
        write_json(findings)
    elif drifted and not update:
        write(f"\n{_count(drifted, plans, len(findings))}")
    ctx.exit(max(statuses))


def _count(drifted: list[str], asked: tuple[str, ...], checked: int) -> str:
    """Say how many plans drifted, and name the command that rewrites them."""
    plans = "the plan drifted" if checked == 1 else f"{len(drifted)} of {checked} plans drifted"
    named = drifted[0] if len(drifted) == 1 else asked[0] if len(asked) == 1 else "PLANS"
    return f"{plans}\nhypar check --update {named} rewrites {'it' if len(drifted) == 1 else 'them'}"


def _each(plans: tuple[str, ...]) -> Iterator[tuple[str, HyparError | None]]:
    """Yield each plan's file, those below folders included, or a folder with the error that it has none."""
    for place in plans:
        if not os.path.isdir(place):  # noqa: PTH112 (a name too long is no folder, and no error here)
            yield place, None
            continue
        try:
            files, others = plans_below(Path(place))
        except HyparError as error:
            yield place, error
            continue
        if others:
            names = ", ".join(str(file.relative_to(place)) for file in others[:3])
            more = f" and {len(others) - 3} more" if len(others) > 3 else ""
            note(f"skipped below {place}, as no plans: {names}{more}")
        yield from ((str(file), None) for file in files)


def judge(
    file: str, model: str | None, hardware: str | None, profile: str | None, tolerance: float
) -> Verdict | HyparError:
    """Return the verdict on one plan, or the error that prevents one, so that the other plans are still checked."""
    try:
        return check_plan(file, model=model, hardware=hardware, profile=profile, tolerance=tolerance)
    except HyparError as error:
        return error
