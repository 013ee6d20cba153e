"""Options: each is a row, shown under a heading of the help page, with the names of its values for help and completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.formatting import measure_table
from click.shell_completion import CompletionItem

from hypar.errors import OptionError, shown, suggestion
from hypar.plan.parameter import HEADINGS, OTHER, Parameter
from hypar.registry import data_names

if TYPE_CHECKING:
    from collections.abc import Iterable


WIDEST = 30
"""Characters of an option that its help still stands beside, as click has it."""


def _offered(names: Iterable[str], typed: str, *, files: bool) -> list[CompletionItem]:
    """Return the names that begin with what was typed, else files if there may be one."""
    found = [CompletionItem(name) for name in names if name.startswith(typed)]
    return found or ([CompletionItem(typed, type="file")] if files else [])


class Option(click.Option):
    """An option of a command."""

    def __init__(self, row: Parameter) -> None:
        """Take its row."""
        self.row, self.heading = row, row.heading
        plain = not row.listed and (
            row.read in {str, int, float, bool} or isinstance(row.read, click.ParamType)
        )
        file = click.Path(dir_okay=False, allow_dash=True) if row.metavar == "FILE" else None
        how: dict[str, Any] = {"type": row.read if plain else file, "multiple": row.several}
        if row.read is bool:
            how = {"is_flag": True, "default": False}
        elif row.alone is not None:
            how |= {"is_flag": False, "flag_value": row.alone}
        if row.default is not None:
            how |= {"default": row.default, "show_default": "[default" not in row.help}
        how |= {"required": row.required, "metavar": row.metavar, "help": row.help}
        super().__init__(row.flags.split(), callback=None if plain else self._read, **how)

    def _read(self, _ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
        """Return what the row reads of a text, or of each in a list."""
        if value is None:
            return None
        if self.row.several:
            return self.row.read(value) if value else {}
        return tuple(map(self._one, value.split(","))) if self.row.listed else self._one(value)

    def _one(self, text: str) -> Any:
        """Return what the row reads of a text, or the text itself if it only checks it."""
        try:
            found = self.row.read(text)
        except ValueError:
            hint = suggestion(text, self.row.names())
            raise OptionError(str(self.name), f"found {shown(text)}", self.row.allowed, hint) from None
        return text if found is None else found

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the flags and the help text with the names in it."""
        if "{names}" in self.row.help:
            self.help = self.row.help.replace("{names}", ", ".join((self.row.forms or self.row.names)()))
        return super().get_help_record(ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with what was typed, else files if there may be one."""
        row = self.row
        before, comma, _ = incomplete.rpartition(",") if row.listed else ("", "", incomplete)
        names = (before + comma + name for name in (data_names(row.kind) if row.kind else row.names()))
        files = bool(row.ending or row.kind or row.metavar in {"FILE", "PATH"})
        return _offered(names, incomplete, files=files) or super().shell_complete(ctx, incomplete)


def argument(name: str, kind: str = "", **named: Any) -> click.Argument:
    """Return an argument that is a file, or the bare name of a ``kind`` of data file, as of ``models``."""

    def complete(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
        return _offered(data_names(kind) if kind else (), typed, files=True)

    return click.Argument([name], shell_complete=complete, **named)


class Command(click.Command):
    """A command whose help page groups its options under headings."""

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
