"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.exceptions import Exit
from click.shell_completion import CompletionItem

from hypar.cli.options import ARRAY, MACHINE, NETWORK, OUTPUT, SEARCH, STAGES, data, option, plugins
from hypar.errors import OptionError, shown
from hypar.files.text import require_writable
from hypar.network.training import OPTIMIZERS
from hypar.plan.splits import BALANCES
from hypar.registry import data_names, plugin_names
from hypar.reports.terminal import warn

if TYPE_CHECKING:
    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine

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


def _read_ways(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    try:
        return None if value is None else tuple(int(part) for part in value.split("x"))
    except ValueError:
        raise OptionError("array", f"found {shown(value)}", "the ways of each level, as 4x8 or 16") from None


OPTIMIZER_HELP = "Optimizer, for updates and memory: {names}."


def change_names() -> tuple[str, ...]:
    """Return the values of a machine that may be changed."""
    from hypar.machine import changes  # noqa: PLC0415 (only for a completion)

    return changes.change_names()


def change_forms() -> tuple[str, ...]:
    """Return the values of a machine that may be changed, a field of several networks or compute models as one form."""
    from hypar.machine.changes import CHANGEABLE, PATTERNS  # noqa: PLC0415 (only for a help page)

    return (*CHANGEABLE, *PATTERNS)


def space_names() -> tuple[str, ...]:
    """Return the words of a space that stand alone."""
    from hypar.sharding.dims import CUTTABLE  # noqa: PLC0415 (only for a help page or a completion)

    return ("all", *CUTTABLE)


as_json = option(
    "--json", "as_json", heading=OUTPUT, is_flag=True, is_eager=True, help="Print JSON instead of a table."
)

batch_option = option(
    "--batch", heading=NETWORK, type=int, metavar="N", help="Samples in a mini-batch.  [default: the model's]"
)
devices_option = option(
    "--array",
    heading=ARRAY,
    callback=_read_ways,
    metavar="WAYS",
    help="Ways of each level, outermost first, as 4x8.  [default: a level for each network of the machine]",
)

weight_option = option(
    "--inter-weight",
    heading=SEARCH,
    type=float,
    metavar="W",
    help="Weight of the communication between layers in the cost; 0.5 reproduces HyPar's figures.  [default: 1]",
)


cost_option = option(
    "--cost",
    heading=SEARCH,
    names=plugins("costs"),
    metavar="NAME",
    help="Cost to minimise: {names}.  [default: the strategy's]",
)


def convention_names() -> tuple[str, ...]:
    """Return the conventions of counting."""
    from hypar.sharding.conventions import BY_LEVELS  # noqa: PLC0415 (only for a help page or a completion)

    return BY_LEVELS


def convention_option(default: str) -> Callable[[Wrapped], Wrapped]:
    """Return the option ``--convention``, with a default for the help page."""
    return option(
        "--convention",
        heading=SEARCH,
        names=convention_names,
        metavar="NAME",
        help=f"How bytes are counted: {{names}}.  [default: {default}]",
    )


counted_option = convention_option("moved")
_ARRAY_OPTIONS = (
    option("--levels", heading=ARRAY, type=int, metavar="N", help="Number of two-way levels.  [default: 4]"),
    option("--array", heading=ARRAY, callback=_read_ways, metavar="WAYS", help="Ways of each level instead, outermost first, as 4x8."),
    batch_option,
)  # fmt: skip


complete_hardware = complete_data("hardware")


def read_changes(values: Sequence[str]) -> dict[str, Any]:
    """Read ``duplex=half`` as a hardware file would give it."""
    if not values:
        return {}
    from hypar.machine.load import parse_change  # noqa: PLC0415 (only where it is asked for)

    return dict(parse_change(value) for value in values)


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
        from hypar.files.canvas import require_plot  # noqa: PLC0415 (only where it is asked for)

        require_plot(value)
    return value


balance_option = option(
    "--balance",
    heading=STAGES,
    metavar="NAME",
    names=lambda: BALANCES,
    help="Quantity to minimise in the costliest stage: time, memory, traffic or macs.  [default: time]",
)
starts_option = option(
    "--starts",
    heading=STAGES,
    metavar="LAYERS",
    help="First layers of the stages, as conv1,conv3,fc1, instead of the best partition.",
)
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
change_option = option("--set", "changes", heading=MACHINE, multiple=True, metavar="NAME=VALUE",
    callback=lambda _ctx, _param, values: read_changes(values),
    names=change_names,
    forms=change_forms,
    help="Change one value of the machine, as duplex=half; may be repeated. Names: {names}.",
)  # fmt: skip

profile_option = option(
    "--profile",
    heading=SEARCH,
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Measured times for the cost deepa, as written by hypar profile.",
)

machine_option = option(
    "--hardware",
    heading=MACHINE,
    names=data("hardware"),
    files=True,
    metavar="NAME",
    help="Machine to use: {names}, or a hardware file.",
)

_HARDWARE_OPTIONS = (
    machine_option,
    change_option,
    option("--optimizer", heading=MACHINE, default="sgd", metavar="NAME", show_default=True,
        names=lambda: OPTIMIZERS, help=OPTIMIZER_HELP,
    ),
)  # fmt: skip


def hardware_options(command: Wrapped) -> Wrapped:
    """Add ``--hardware``, ``--set`` and ``--optimizer``."""
    for add in reversed(_HARDWARE_OPTIONS):
        command = add(command)
    return command


fit_option = option(
    "--fit", heading=OUTPUT, is_flag=True, help="Exit 1 if a plan does not fit the memory of its machine."
)
full_option = option(
    "--full",
    heading=OUTPUT,
    is_flag=True,
    help="Show every layer of a large network, not a row for each part.",
)


def require_hardware(ctx: click.Context, *, fit: bool) -> None:
    """Refuse ``--fit`` without a machine."""
    if fit and ctx.params["hardware"] is None:
        raise click.UsageError("--fit needs --hardware")


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
        warn(line, aside=aside)
    yield
    if fit and lines:
        raise Exit(1)


def needed_machine(hardware: str | None, changes: dict[str, Any]) -> Machine:
    """Load the machine of identical devices that the command requires.

    Raises:
        OptionError: no machine is named.
    """
    if hardware is None:
        raise _no_machine()
    from hypar.machine.load import load_machine  # noqa: PLC0415 (only where it is asked for)

    return load_machine(hardware, changes)


def needed_hardware(hardware: str | None, changes: dict[str, Any]) -> Machine | HeterogeneousMachine:
    """Load the machine, homogeneous or heterogeneous, that the command requires.

    Raises:
        OptionError: no machine is named.
    """
    machine = None if hardware is None else named_machine(hardware, changes)
    if machine is None:
        raise _no_machine()
    return machine


def _no_machine() -> OptionError:
    return OptionError("hardware", "no machine is named", "one, as --hardware hmc")


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


def array_options(command: Wrapped) -> Wrapped:
    """Add ``--levels``, ``--array`` and ``--batch``."""
    for add in reversed(_ARRAY_OPTIONS):
        command = add(command)
    return command
