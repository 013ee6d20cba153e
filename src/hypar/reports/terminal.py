"""Output to a terminal or a pipe: results on stdout, notes on stderr."""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.measure import Measurement

from hypar.files.json_file import format_json
from hypar.files.text import not_printed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.table import Table


_PLAIN: dict[str, Any] = {"markup": False, "highlight": False, "emoji": False, "force_jupyter": False}
"""Console options: no markup, because names come from files, and no display of rich's own in a notebook."""


def as_text(table: Table, *, above: str = "", below: Iterable[str] = ()) -> str:
    """Format a table between lines as plain text of any width."""
    stream = io.StringIO()
    Console(file=stream, width=10_000, color_system=None, **_PLAIN).print(table)
    lines = [*filter(None, [above]), *(line.rstrip() for line in stream.getvalue().splitlines()), *below]
    return "".join(f"{line}\n" for line in lines)


def show(table: Table, *, above: str = "", below: Iterable[str] = ()) -> None:
    """Print a table between lines on stdout: coloured on a terminal, in unbroken lines on a pipe."""
    console = Console(**_PLAIN)
    if not console.is_terminal:
        write(as_text(table, above=above, below=below))
        return
    wide = max(console.width, Measurement.get(console, console.options.update(width=10_000), table).maximum)
    with _printing():
        if above:
            console.print(above, style="bold")
        console.print(table, width=wide, crop=False, no_wrap=True, overflow="ignore")
        for line in below:
            console.print(line)


def warn(text: str, *, aside: bool = False) -> None:
    """Print an important line, in red if the console has colours.

    Args:
        text: the line.
        aside: whether it goes to stderr, because stdout carries data.
    """
    console = Console(stderr=aside, soft_wrap=True, **_PLAIN)
    if aside:
        with suppress(OSError):
            console.print(text, style="bold red")
    elif console.is_terminal:
        with _printing():
            console.print(text, style="bold red")
    else:
        write(text)


def write(text: str) -> None:
    """Print text on stdout, with ``?`` for characters that the terminal's encoding lacks.

    Raises:
        DocumentError: stdout cannot be written to.
    """
    with _printing() as stream:
        encoding = stream.encoding or "utf-8"
        text = text.encode(encoding, "replace").decode(encoding)
        print(text, end="" if text.endswith("\n") else "\n", file=stream)


@contextmanager
def _printing() -> Iterator[TextIO]:
    """Raise at once if stdout cannot be written to, not at the end of the program."""
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise not_printed(error) from error


def write_json(data: Any) -> None:
    """Print plain data on stdout as JSON."""
    write(format_json(data))


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on stderr, if that is a terminal, and remove it at the end.

    Yields:
        A function that takes the number of finished steps and the number of all.
    """
    console = Console(stderr=True, force_jupyter=False)
    if not console.is_terminal:
        yield lambda _done, _of: None
        return
    from rich.progress import Progress  # noqa: PLC0415 (only where there is one to see it)

    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(what)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def note(text: str) -> None:
    """Print a note on stderr."""
    with suppress(OSError):
        Console(stderr=True, soft_wrap=True, **_PLAIN).print(text, style="dim")
