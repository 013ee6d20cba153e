"""The options that make a request, declared once for every command that plans: one for each argument of ``plan_model``."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hypar.cli.options import option
from hypar.errors import UnknownNameError
from hypar.plan.request import MACHINE, PARAMETERS, Request, solver_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    Wrapped = TypeVar("Wrapped", bound=Callable[..., Any])


def request_option(name: str, **own: Any) -> Callable[[Any], Any]:
    """Return the decorator that adds an option of a request to a command.

    Args:
        name: the argument of ``plan_model`` that it gives.
        own: what is otherwise for this command, as ``help``.
    """
    row = PARAMETERS[name]
    default = next(field.default for field in fields(Request) if field.name == name)
    given: dict[str, Any] = {
        "names": row.names,
        "metavar": row.metavar,
        "help": row.help,
        "files": bool(row.ending),
    }
    if row.read is bool:
        given = {"is_flag": True, "help": row.help}
    elif row.several:
        given["multiple"] = True
    elif row.read in {int, float}:
        given["type"] = row.read
    elif row.read is not str:
        given["callback"] = lambda _ctx, _param, value: None if value is None else row.read(value)
    elif row.ending and row.names is tuple:
        given["type"] = click.Path(dir_okay=False)
    if isinstance(default, str):
        given |= {"default": default, "show_default": True}
    return option(row.flag, name, heading=row.heading, **{**given, **own})


def change_names() -> tuple[str, ...]:
    """Return the values of a machine that may be changed."""
    from hypar.machine import changes  # noqa: PLC0415 (only for a completion)

    return changes.change_names()


def change_forms() -> tuple[str, ...]:
    """Return the values of a machine that may be changed, a field of several networks or compute models as one form."""
    from hypar.machine.changes import CHANGEABLE, PATTERNS  # noqa: PLC0415 (only for a help page)

    return (*CHANGEABLE, *PATTERNS)


def convention_option(default: str) -> Callable[[Wrapped], Wrapped]:
    """Return the option ``--convention``, with a default for the help page."""
    return request_option("convention", help=f"How bytes are counted: {{names}}.  [default: {default}]")


counted_option = convention_option("moved")
"""The convention by which all plans of a study are counted."""

devices_option = request_option(
    "array",
    help="Ways of each level, outermost first, as 4x8.  [default: a level for each network of the machine]",
)


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


HARDWARE_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "hardware": request_option("hardware"),
    "changes": change_option,
    "optimizer": request_option("optimizer"),
}
"""The options that name a machine, by the arguments that they give."""


def hardware_options(command: Wrapped) -> Wrapped:
    """Add ``--hardware``, ``--set`` and ``--optimizer``."""
    for add in reversed(HARDWARE_OPTIONS.values()):
        command = add(command)
    return command


def _solver(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value is not None and value not in solver_names():
        raise UnknownNameError("solver", value, solver_names())
    return value


_OWN: dict[str, dict[str, Any]] = {"solver": {"callback": _solver}}

OPTIONS: dict[str, Callable[[Any], Any]] = {
    name: add
    for own in PARAMETERS
    for name, add in (
        HARDWARE_OPTIONS if own == "hardware" else {own: request_option(own, **_OWN.get(own, {}))}
    ).items()
}
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
