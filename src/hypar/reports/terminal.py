"""Output to a terminal or a pipe: results on stdout, notes on stderr."""

from __future__ import annotations

import io
import shutil
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.measure import Measurement

from hypar.activity import listening
from hypar.files.json_file import format_json
from hypar.files.text import not_printed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.progress import Progress
    from rich.table import Table


_PLAIN: dict[str, Any] = {"markup": False, "highlight": False, "emoji": False}
"""Console options that disable markup, because names come from files."""


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


def line_width() -> int:
    """Return the width of a line: that of the terminal, ``COLUMNS`` if set, else 80 where there is no terminal."""
    return shutil.get_terminal_size().columns


def write_lines(lines: Sequence[str]) -> None:
    """Print lines on stdout, the first of them, which is the answer, bold on a terminal."""
    console = Console(soft_wrap=True, **_PLAIN)
    if not console.is_terminal:
        write("\n".join(lines))
        return
    with _printing():
        for number, line in enumerate(lines):
            console.print(line, style="" if number else "bold")


def write_json(data: Any) -> None:
    """Print plain data on stdout as JSON."""
    write(format_json(data))


PATIENCE_S = 0.5
"""Seconds of work before a progress bar appears."""


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show on stderr, if that is a terminal, what is being done and how far it is; remove it at the end.

    It appears after ``PATIENCE_S``. What is done is what the work tells of itself (``hypar.activity``).

    Args:
        what: what is done, until the work tells more.

    Yields:
        A function that takes the number of finished steps and the number of all.
    """
    if not sys.stderr.isatty() or Console(stderr=True).is_dumb_terminal:
        yield lambda _done, _of: None
        return
    shown = _Progress(what)
    timer = threading.Timer(PATIENCE_S, shown.start)
    timer.daemon = True
    timer.start()
    try:
        with listening(shown.tell):
            yield shown.update
    finally:
        timer.cancel()
        timer.join()
        shown.stop()


class _Progress:
    """A progress bar that may not have appeared yet."""

    def __init__(self, what: str) -> None:
        self.state: dict[str, Any] = {"description": what, "total": None, "completed": 0}
        self.bar: Progress | None = None

    def start(self) -> None:
        """Show the bar."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 (only where there is one to see it)
        from rich.table import Column  # noqa: PLC0415 (as above)

        columns = (
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            BarColumn(20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        options: dict[str, Any] = {"redirect_stdout": False, "redirect_stderr": False, "transient": True}
        bar = Progress(*columns, console=Console(stderr=True), **options)
        self.task = bar.add_task(**self.state)
        bar.start()
        self.bar = bar

    def tell(self, what: str) -> None:
        """Show what is being done."""
        self._set(description=what)

    def update(self, done: int, of: int) -> None:
        """Show how far it is."""
        self._set(completed=done, total=of)

    def _set(self, **values: Any) -> None:
        self.state.update(values)
        if self.bar is not None:
            self.bar.update(self.task, **values)

    def stop(self) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.stop()


def note(text: str) -> None:
    """Print a note on stderr."""
    with suppress(OSError):
        Console(stderr=True, soft_wrap=True, **_PLAIN).print(text, style="dim")
