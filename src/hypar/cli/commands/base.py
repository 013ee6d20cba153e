"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.exceptions import Exit
from click.shell_completion import CompletionItem

from hypar.cli.options import OUTPUT, option
from hypar.errors import OptionError
from hypar.files.text import require_writable
from hypar.machine.step_times import is_step_table
from hypar.registry import data_names, plugin_names
from hypar.reports.terminal import warn
from hypar.reports.words import unfit

if TYPE_CHECKING:
    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.plan.score import Score

Wrapped = TypeVar("Wrapped", bound=Callable[..., Any])


Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_data(kind: str) -> Completer:
    """Return a completer over the bare names of a kind of data file, as ``models``, and over files."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        names = [CompletionItem(name) for name in data_names(kind) if name.startswith(incomplete)]
        return names or [CompletionItem(incomplete, type="file")]

    return complete


complete_model = complete_data("models")


def complete_plugin(group: str) -> Completer:
    """Return a completer over the names of a group's plug-ins."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in plugin_names(group) if name.startswith(incomplete)]

    return complete


as_json = option(
    "--json", "as_json", heading=OUTPUT, is_flag=True, is_eager=True, help="Print JSON instead of a table."
)


complete_hardware = complete_data("hardware")


def _one_form(ctx: click.Context, asked: bool) -> bool:
    """Refuse CSV and JSON together."""
    if asked and ctx.params.get("as_json"):
        raise click.UsageError("--csv and --json exclude each other")
    return asked


def writable(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Check before any work that a file can be written."""
    if value is not None:
        require_writable(Path(value))
    return value


def _drawable(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Check before any work that a plot can be written to a file."""
    if value is not None:
        from hypar.reports.plots import require_plot  # noqa: PLC0415 (only where it is asked for)

        require_plot(value)
    return value


plot_option = option(
    "--plot",
    heading=OUTPUT,
    type=click.Path(dir_okay=False),
    callback=_drawable,
    metavar="FILE",
    help="Write a plot, as .png, .svg or .pdf.",
)
trace_option = option(
    "--trace",
    heading=OUTPUT,
    type=click.Path(dir_okay=False),
    callback=writable,
    metavar="FILE",
    help="Write a Chrome trace for Perfetto.",
)
as_csv = option(
    "--csv",
    "as_csv",
    heading=OUTPUT,
    is_flag=True,
    callback=lambda ctx, _param, value: _one_form(ctx, value),
    help="Print CSV instead of a table.",
)


fit_option = option(
    "--fit", heading=OUTPUT, is_flag=True, help="Exit 1 if a plan does not fit the memory of its machine."
)
full_option = option(
    "--full",
    heading=OUTPUT,
    is_flag=True,
    help="Show every layer of a large network, and notes on details.",
)


def require_hardware(ctx: click.Context, *, fit: bool) -> None:
    """Refuse ``--fit`` without a machine."""
    if fit and ctx.params["hardware"] is None:
        raise click.UsageError("--fit needs --hardware")


def exit_if_unfit(score: Score | None, *, fit: bool, as_data: bool) -> None:
    """Exit 1 for a plan that exceeds its machine's memory if asked to; say so on stderr where stdout carries data."""
    if score is None or score.fits:
        return
    if as_data:
        warn(unfit(score), to_stderr=True)
    if fit:
        raise Exit(1)


@contextmanager
def judged(unfit: Iterable[str], *, fit: bool, aside: bool) -> Iterator[None]:
    """Print first which plans exceed their machine's memory; exit 1 after the rest if asked to.

    Args:
        unfit: a line for each plan that does not fit, an empty one for each plan that does.
        fit: whether to exit 1.
        aside: whether the lines go to stderr, because stdout carries data.
    """
    lines = [line for line in unfit if line]
    for line in lines:
        warn(line, to_stderr=aside)
    yield
    if fit and lines:
        raise Exit(1)


def needed_hardware(hardware: str | None, changes: dict[str, Any]) -> Machine | HeterogeneousMachine:
    """Load the machine that the command requires, homogeneous or heterogeneous.

    Raises:
        OptionError: no machine is named.
    """
    found = None if hardware is None else named_machine(hardware, changes)
    if found is None:
        raise OptionError("hardware", "no machine is named", "one, as --hardware hmc")
    return found


def measured_or_named(
    hardware: str | None, changes: dict[str, Any], profile: str | None
) -> Machine | HeterogeneousMachine | None:
    """Load the machine; the changes alone may be for the devices of a table of measured times."""
    if hardware is None and changes and profile is not None and is_step_table(profile):
        from hypar.machine.measured import measured_devices  # noqa: PLC0415 (only where it is asked for)

        return measured_devices(Path(profile), changes)
    return named_machine(hardware, changes)


def named_machine(hardware: str | None, changes: dict[str, Any]) -> Machine | HeterogeneousMachine | None:
    """Load the machine, homogeneous or heterogeneous, or return None if no machine is named.

    Raises:
        OptionError: changes are given without a machine.
    """
    if hardware is None:
        if changes:
            raise OptionError("--set", "no machine is named", "one, as --hardware hmc")
        return None
    from hypar.machine.load_heterogeneous import load_hardware  # noqa: PLC0415 (only where it is asked for)

    return load_hardware(hardware, changes)
