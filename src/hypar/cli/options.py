"""Options under the headings of a help page, which list and complete the names of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
from click.formatting import measure_table
from click.shell_completion import CompletionItem

from hypar.cli.gone import OPTIONS, Gone
from hypar.plan import request
from hypar.registry import data_names, plugin_names

NETWORK, ARRAY, SEARCH = request.NETWORK, request.ARRAY, request.SEARCH
MACHINE, STAGES, OUTPUT, OTHER = request.MACHINE, request.STAGES, "Output", "Other"

HEADINGS = (NETWORK, ARRAY, SEARCH, MACHINE, STAGES, OUTPUT, OTHER)
"""The headings of a help page, in order."""

WIDEST = 30
"""Characters of an option that its help still stands beside, as click has it."""

Names = Callable[[], Iterable[str]]


class Option(click.Option):
    """An option under a heading, whose values may have names.

    Attributes:
        heading: one of ``HEADINGS``.
        names: function that returns the names, called only where a help page or a completion needs them.
        forms: function that returns what a help page lists instead, where the names are many.
        listed: whether a value is a list of names, separated by commas.
        files: whether a value may also be a file.
    """

    def __init__(
        self,
        *given: Any,
        heading: str = OTHER,
        names: Names = tuple,
        forms: Names | None = None,
        listed: bool = False,
        files: bool = False,
        **named: Any,
    ) -> None:
        """Store the heading and the names besides what click stores; ``{names}`` in the help stands for them."""
        self.heading, self.names, self.listed, self.files = heading, names, listed, files
        self.forms = names if forms is None else forms
        super().__init__(*given, **named)

    @property
    def help(self) -> str | None:
        """Return the help text with the names in it."""
        text = self._help
        return text.replace("{names}", ", ".join(self.forms())) if text and "{names}" in text else text

    @help.setter  # noqa: A003 (click's own name)
    def help(self, text: str | None) -> None:
        self._help = text

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with what was typed, else files if there may be one."""
        before, comma, last = incomplete.rpartition(",") if self.listed else ("", "", incomplete)
        found = [CompletionItem(before + comma + name) for name in self.names() if name.startswith(last)]
        if found or not self.files:
            return found or super().shell_complete(ctx, incomplete)
        return [CompletionItem(incomplete, type="file")]


class Command(click.Command):
    """A command whose help page groups its options under headings."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of a command line; an option that is no more is refused with what takes its place."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name in OPTIONS:
                raise Gone(f"no option {error.option_name}: {OPTIONS[error.option_name]}") from None
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, heading by heading, the help texts of all below each other."""
        found: dict[str, list[tuple[str, str]]] = {heading: [] for heading in HEADINGS}
        for param in self.get_params(ctx):
            record = None if isinstance(param, click.Argument) else param.get_help_record(ctx)
            if record is not None:
                found[getattr(param, "heading", OTHER)].append(record)
        beside = [row for rows in found.values() for row in rows if len(row[0]) <= WIDEST]
        width = measure_table(beside)[0]
        for heading, rows in found.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl([(f"{name:<{width}}", text) for name, text in rows], col_max=width)


def option(*declared: str, heading: str, **named: Any) -> Callable[[Any], Any]:
    """Return a decorator that adds an ``Option`` to a command."""
    return click.option(*declared, cls=Option, heading=heading, **named)


def plugins(group: str) -> Names:
    """Return a function that lists the names of a group's plug-ins."""
    return lambda: plugin_names(group)


def data(kind: str) -> Names:
    """Return a function that lists the bare names of a kind of data files."""
    return lambda: data_names(kind)
