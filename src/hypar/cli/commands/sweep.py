"""``hypar sweep``."""

from __future__ import annotations

from typing import Any

import click

from hypar.cli.commands.base import as_csv, as_json, complete_model, plot_option
from hypar.cli.options import ARRAY, MACHINE, NETWORK, SEARCH, Command, data, option, plugins
from hypar.cli.planning import (
    change_forms,
    change_names,
    counted_option,
    planning_options,
    read_changes,
)
from hypar.errors import OptionError, shown
from hypar.plan.request import read_array
from hypar.reports.of.sweep import sweep_rows
from hypar.reports.tables import csv_text
from hypar.reports.terminal import note, progress_bar, show_document, write, write_json
from hypar.studies.sweep import sweep_model


def _numbers(_ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """Read ``0..6`` or ``32,4096`` as numbers."""
    try:
        first, dots, last = (value or "").partition("..")
        if dots:
            return tuple(range(int(first), min(int(last), 10_000) + 1))
        return tuple(int(part) for part in value.split(",")) if value else None
    except ValueError:
        raise OptionError(str(param.name), f"found {shown(value)}", "numbers as 1,2,4 or 0..6") from None


def _words(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(value.split(","))


def _varied(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, list[Any]]:
    """Read ``duplex=full,half`` as the values of one axis."""
    found: dict[str, list[Any]] = {}
    for text in values:
        name, equals, listed = text.partition("=")
        read = read_changes([f"{name}=[{listed}]" if equals else text])
        found.setdefault(name, []).extend(read[name])
    return found


def _arrays(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[tuple[int | str, ...], ...] | None:
    """Read ``4,16,2xs4x2`` as the nodes of three arrays."""
    return None if value is None else tuple(map(read_array, value.split(",")))


@click.command("sweep", cls=Command)
@click.argument("model", shell_complete=complete_model)
@planning_options(
    hardware=option("--hardware", heading=MACHINE, required=True, callback=_words, metavar="NAMES", names=data("hardware"),
        listed=True, files=True, help="Machines, as hmc or hmc,my.yaml: {names}, and hardware files."),
    changes=option("--vary", "changes", heading=MACHINE, multiple=True, callback=_varied, metavar="NAME=VALUES",
        names=change_names, forms=change_forms,
        help="Values of the machine to vary, as topology=h_tree,torus; may be repeated. Names: {names}."),
    levels=option("--levels", heading=ARRAY, callback=_numbers, metavar="NUMBERS",
        help="Numbers of two-way levels, as 0..6; 0 means one device.  [default: 4]"),
    array=option("--array", heading=ARRAY, callback=_arrays, metavar="ARRAYS",
        help="Arrays instead, each by the ways of its levels, outermost first, as 4,16,2xs4x2."),
    batch=option("--batch", heading=NETWORK, callback=_numbers, metavar="NUMBERS",
        help="Samples in a mini-batch, as 32,4096.  [default: the model's]"),
    strategy=option("--strategy", heading=SEARCH, default="dp,hypar", callback=_words, metavar="NAMES", show_default=True,
        names=plugins("strategies"), listed=True, help="Strategies, as dp,hypar: {names}."),
    convention=counted_option,
)  # fmt: skip
@option(
    "--scale",
    heading=MACHINE,
    is_flag=True,
    help="Give a machine with one network as many devices as the levels need.",
)
@plot_option
@as_csv
@as_json
def command(model: str, plot: str | None, as_csv: bool, as_json: bool, **asked: Any) -> None:
    """Plan and score MODEL for every combination of arrays, batches, strategies and machines."""
    with progress_bar("sweeping") as progress:
        runs = sweep_model(model, progress=progress, **asked)
    if plot is not None:
        runs.plot(plot)
        note(f"wrote {plot}")
    if as_json:
        write_json(sweep_rows(runs))
    elif as_csv:
        write(csv_text(sweep_rows(runs)), document=True)
    else:
        show_document(runs.document())
