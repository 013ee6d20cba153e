"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from hypar.errors import OptionError
from hypar.quoting import shown
from hypar.registry import data_names, plugin_names

Command = TypeVar("Command", bound=Callable[..., Any])


Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_model(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Bare names of models, else files."""
    names = [CompletionItem(name) for name in data_names("models") if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


def complete_plugin(group: str) -> Completer:
    """Names of the plug-ins of a group."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in plugin_names(group) if name.startswith(incomplete)]

    return complete


def _read_ways(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """``4x8`` as numbers."""
    try:
        return None if value is None else tuple(int(part) for part in value.split("x"))
    except ValueError:
        raise OptionError("array", f"found {shown(value)}", "the ways of each level, as 4x8 or 16") from None


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")

_ARRAY_OPTIONS = (
    click.option("--levels", type=int, metavar="N", help="Number of two-way levels.  [default: 4]"),
    click.option("--array", callback=_read_ways, metavar="WAYS", help="Ways of each level instead, outermost first, as 4x8."),
    click.option("--batch", type=int, metavar="N", help="Samples in a mini-batch.  [default: the model's]"),
    click.option(
        "--inter-weight", type=float, metavar="W",
        help="Weight of the amounts between layers; 0.5 reproduces HyPar's figures.  [default: 1]",
    ),
)  # fmt: skip


def array_options(command: Command) -> Command:
    """``--levels``, ``--array``, ``--batch`` and ``--inter-weight``."""
    for option in reversed(_ARRAY_OPTIONS):
        command = option(command)
    return command
