"""The options that make a request, declared once for every command that plans: one for each argument of ``plan_model``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from hypar.cli.options import ARRAY, MACHINE, NETWORK, SEARCH, STAGES, data, option, plugins
from hypar.errors import OptionError, UnknownNameError, shown, suggestion
from hypar.network.training import OPTIMIZERS
from hypar.plan.chunks import CHUNKS
from hypar.plan.splits import BALANCES, FLUSHES
from hypar.planning.checks.stages import BEST
from hypar.planning.checks.words import GRAPHS, SHARES
from hypar.registry import plugin_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    Wrapped = TypeVar("Wrapped", bound=Callable[..., Any])


def read_nodes(value: str) -> tuple[int | str, ...]:
    """Read ``2xs4x2`` as the ways of levels and a number of stages among them.

    Raises:
        OptionError: it is not of that form.
    """
    words = value.split("x")
    if not any(word.startswith("s") for word in words):
        return read_ways(value)
    if not all(word.removeprefix("s").isdecimal() for word in words):
        allowed = "the ways of each level, with a number of stages as 2xs4x2"
        raise OptionError("array", f"found {shown(value)}", allowed)
    return tuple(word if word.startswith("s") else int(word) for word in words)


def read_ways(value: str) -> tuple[int, ...]:
    """Read ``4x8`` as the ways of each level.

    Raises:
        OptionError: it is not of that form.
    """
    try:
        return tuple(int(part) for part in value.split("x"))
    except ValueError:
        raise OptionError("array", f"found {shown(value)}", "the ways of each level, as 4x8 or 16") from None


def _read_array(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    return None if value is None else read_ways(value)


def _read_nodes(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[int | str, ...] | None:
    return None if value is None else read_nodes(value)


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
    from hypar.network.dims import CUTTABLE  # noqa: PLC0415 (only for a help page or a completion)

    return ("all", *CUTTABLE)


def solver_names() -> tuple[str, ...]:
    """Return the solvers that may be named: others serve inside searches and tests."""
    return tuple(name for name in plugin_names("solvers") if name not in {"coarse", "exhaustive", "uniform"})


def _solver(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value is not None and value not in solver_names():
        raise UnknownNameError("solver", value, solver_names())
    return value


batch_option = option(
    "--batch", heading=NETWORK, type=int, metavar="N", help="Samples in a mini-batch.  [default: the model's]"
)


levels_option = option(
    "--levels", heading=ARRAY, type=int, metavar="N", help="Number of two-way levels.  [default: 4]"
)


array_option = option(
    "--array",
    heading=ARRAY,
    callback=_read_nodes,
    metavar="WAYS",
    help="Ways of each level instead, outermost first, as 4x8; 2xs4x2 has 4 stages inside the first level.",
)


devices_option = option(
    "--array",
    heading=ARRAY,
    callback=_read_array,
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
"""The convention by which all plans of a study are counted."""


def read_changes(values: Sequence[str]) -> dict[str, Any]:
    """Read ``duplex=half`` as a hardware file would give it."""
    if not values:
        return {}
    from hypar.machine.load import parse_change  # noqa: PLC0415 (only where it is asked for)

    return dict(parse_change(value) for value in values)


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


HARDWARE_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "hardware": machine_option,
    "changes": change_option,
    "optimizer": option("--optimizer", heading=MACHINE, default="sgd", metavar="NAME", show_default=True,
        names=lambda: OPTIMIZERS, help=OPTIMIZER_HELP,
    ),
}  # fmt: skip
"""The options that name a machine, by the arguments that they give."""


def hardware_options(command: Wrapped) -> Wrapped:
    """Add ``--hardware``, ``--set`` and ``--optimizer``."""
    for add in reversed(HARDWARE_OPTIONS.values()):
        command = add(command)
    return command


def _modes() -> tuple[str, ...]:
    from hypar.costs.deepa import MODES  # noqa: PLC0415 (only for a help page or a completion)

    return MODES


def _read_stages(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | str | None:
    """Read a number, or ``best``."""
    if value is None or value == BEST:
        return value
    try:
        return int(value)
    except ValueError:
        hint = suggestion(value, [BEST])
        raise OptionError("stages", f"found {shown(value)}", "a whole number, or best", hint) from None


parts_option = option(
    "--parts",
    heading=STAGES,
    type=int,
    metavar="V",
    help="Parts of the network that each stage works for, in schedule interleaved.  [default: 2]",
)


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


OPTIONS: dict[str, Callable[[Any], Any]] = {
    "levels": levels_option,
    "array": array_option,
    "batch": batch_option,
    "strategy": option("--strategy", heading=SEARCH, names=plugins("strategies"), metavar="NAME",
        help="Named combination of a space, a cost and a search: {names}.  [default: hypar]"),
    "space": option("--space", heading=SEARCH, metavar="DIMS", names=space_names,
        help="Choices to search: one or several of {names}; several dims at once (batch*height), other dims for some ops (conv:batch linear:mp), or a strategy's name.  [default: the strategy's]"),
    "cost": cost_option,
    "inter_weight": weight_option,
    "convention": convention_option("the strategy's for the cost, moved for the score"),
    "mode": option("--mode", heading=SEARCH, metavar="NAME", names=_modes,
        help="Mode of the cost deepa: exact or serial."),
    "profile": profile_option,
    "graph": option("--graph", heading=NETWORK, metavar="NAME", names=lambda: GRAPHS,
        help="Graph of the network: contracted (without pools) or operators (with them)."),
    "search": option("--search", heading=SEARCH, names=plugins("searches"), metavar="NAME",
        help="Search over the levels: {names}.  [default: the strategy's]"),
    "solver": option("--solver", heading=SEARCH, names=solver_names, callback=_solver, metavar="NAME",
        help="Solver to use: {names}.  [default: the cheapest exact one]"),
    "time_limit": option("--time-limit", heading=SEARCH, type=float, metavar="SECONDS",
        help="Time for the joint search, after which it answers with its best plan and a bound.  [default: 60]"),
    "search_memory": option("--search-memory", heading=SEARCH, type=float, metavar="BYTES",
        help="Memory for the tables of the joint search.  [default: 1e9]"),
    "pins": option("--pin", "pins", heading=SEARCH, multiple=True, metavar="LAYER[@LEVEL]=CHOICE",
        help="Fix a choice, as fc1=mp or conv*@H2=batch; may be repeated."),
    **HARDWARE_OPTIONS,
    "shares": option("--shares", heading=MACHINE, metavar="NAME", names=lambda: SHARES,
        help="How device groups share the work: equal, linear, exact, or layers (per layer).  [default: the strategy's]"),
    "stages": option("--stages", heading=STAGES, callback=_read_stages, names=lambda: [BEST], metavar="N|best",
        help="Number of stages of consecutive layers, each planned by itself; best: the fastest number over the outermost levels."),
    "schedule": option("--schedule", heading=STAGES, names=lambda: FLUSHES, metavar="NAME",
        help="Order of the stages' work: 1f1b, interleaved, gpipe or layer-block.  [default: 1f1b]"),
    "microbatches": option("--microbatches", heading=STAGES, type=int, metavar="N",
        help="Microbatches in a mini-batch, with stages.  [default: the number of stages, or the next smaller divisor of the batch]"),
    "parts": parts_option,
    "balance": balance_option,
    "starts": starts_option,
    "refine": option("--refine", heading=SEARCH, is_flag=True,
        help="Improve the plan choice by choice by the engine's time; needs --hardware."),
    "chunks": option("--chunks", heading=STAGES, names=lambda: CHUNKS, metavar="CHUNKS",
        help="Exchange gradients in chunks: best, layers (one chunk per layer), one, or a number of layers; needs --hardware."),
}  # fmt: skip
"""Each option by the argument of ``plan_model`` that it gives; ``hardware`` and ``changes`` together name the machine."""


def planning_options(
    *, without: Collection[str] = (), **own: Callable[[Any], Any]
) -> Callable[[Wrapped], Wrapped]:
    """Return a decorator that adds the options of a request to a command.

    Args:
        without: arguments that the command does not take.
        own: the command's own option for an argument, as one of several values.
    """

    def add(command: Wrapped) -> Wrapped:
        for name, decorate in reversed(({**OPTIONS, **own}).items()):
            if name not in without:
                command = decorate(command)
        return command

    return add
