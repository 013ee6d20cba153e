"""Options: each is a row, shown under a heading of the help page, with the names of its values for help and completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.formatting import measure_table
from click.shell_completion import CompletionItem

from hypar.errors import HyparError
from hypar.registry import data_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Names = Callable[[], Iterable[str]]

NETWORK, ARRAY, SEARCH, MACHINE = "Network", "Array", "Search", "Machine"
STAGES, OUTPUT, OTHER = "Stages and chunks", "Output", "Other"

HEADINGS = (NETWORK, ARRAY, SEARCH, MACHINE, STAGES, OUTPUT, OTHER)
"""The headings of a help page, in order."""

WIDEST = 30
"""Characters of an option that its help still stands beside, as click has it."""

GONE = {
    "--memory-limit": "it is --search-memory, as plans will be limited in the memory of devices too",
    "--timeline": "it is --plot",
    "--integral": "shares are whole elements where they run; plans have them as found",
    "--certificate": "hypar check plans again, and compares the whole file",
}
"""The options that are no more, and what to do in their place."""


class GoneError(HyparError):
    """A command or an option that is no more: wrong usage, refused with what takes its place."""

    exit_status = 2


class Row(NamedTuple):
    """What a command line says of an option.

    Attributes:
        flags: its flags, and behind them the argument that it gives if that has another name.
        help: what it does; ``{names}`` stands for the names of its values.
        read: ``bool`` for a flag without a value, ``int``, ``float``, or a function that reads the text, or all its texts.
        names: function that returns the names of its values, called only where a help page or a completion needs them.
        forms: function that returns what a help page lists instead, where the names are many.
        listed: whether a value is a list of names, separated by commas.
        kind: kind of data file, as ``models``, whose bare names are completed.
        alone: its value if the flag is given without one.
    """

    flags: tuple[str, ...]
    heading: str
    help: str
    metavar: str | None = None
    read: Any = str
    names: Names = tuple
    forms: Names | None = None
    several: bool = False
    listed: bool = False
    files: bool = False
    kind: str = ""
    default: Any = None
    required: bool = False
    alone: str | None = None


def _offered(names: Iterable[str], typed: str, *, files: bool) -> list[CompletionItem]:
    """Return the names that begin with what was typed, else files if there may be one."""
    found = [CompletionItem(name) for name in names if name.startswith(typed)]
    return found or ([CompletionItem(typed, type="file")] if files else [])


class Option(click.Option):
    """An option of a command."""

    def __init__(self, row: Row) -> None:
        """Take its row."""
        self.row, self.heading, self.names, self.forms = row, row.heading, row.names, row.forms or row.names
        plain = row.read in {str, int, float} or isinstance(row.read, click.ParamType)
        kind: Any = click.Path(dir_okay=False, allow_dash=True) if row.metavar == "FILE" else None
        how: dict[str, Any] = {"type": row.read if plain else kind}
        if row.default is not None:
            how["default"] = row.default
        if row.read is bool:
            how = {"is_flag": True, "default": False}
        elif row.alone is not None:
            how |= {"is_flag": False, "flag_value": row.alone}
        super().__init__(
            [*row.flags],
            multiple=row.several,
            show_default=row.default is not None and "[default" not in row.help,
            required=row.required,
            metavar=row.metavar,
            help=row.help,
            callback=None if plain or row.read is bool else self._read,
            **how,
        )

    def _read(self, _ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
        return value if value is None else self.row.read(value)

    @property
    def help(self) -> str:
        """Return the help text with the names in it."""
        text = self.row.help
        return text.replace("{names}", ", ".join(self.forms())) if "{names}" in text else text

    @help.setter  # noqa: A003 (click's own name)
    def help(self, text: str | None) -> None:
        """Keep the row's."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with what was typed, else files if there may be one."""
        before, comma, _ = incomplete.rpartition(",") if self.row.listed else ("", "", incomplete)
        names = data_names(self.row.kind) if self.row.kind else self.names()
        files = self.row.files or self.metavar in {"FILE", "PATH"}
        listed = (before + comma + name for name in names)
        return _offered(listed, incomplete, files=files) or super().shell_complete(ctx, incomplete)


class Argument(click.Argument):
    """An argument that is the bare name of a data file, as of ``models``, or a file."""

    def __init__(self, name: str, kind: str = "", **named: Any) -> None:
        """Take its name, and the kind of data file if it may be a bare name."""
        self.kind = kind
        super().__init__([name], **named)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the bare names that begin with what was typed, else files."""
        if self.type.name == "choice":
            return super().shell_complete(ctx, incomplete)
        return _offered(data_names(self.kind) if self.kind else (), incomplete, files=True)


class Command(click.Command):
    """A command whose help page groups its options under headings."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of a command line; an option that is no more is refused with what takes its place."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name in GONE:
                raise GoneError(f"no option {error.option_name}: {GONE[error.option_name]}") from None
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
