"""Output to a terminal or a pipe: results on stdout, notes on stderr."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from rich.console import Console
from rich.text import Text

from hypar.activity import listening
from hypar.errors import printable
from hypar.files.json_file import format_json
from hypar.files.text import not_printed
from hypar.reports.columns import COMPUTES, LITTLE, RECEIVES, apart
from hypar.reports.prose import WIDEST_TEXT, Note, note_lines, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.progress import Progress

    from hypar.reports.columns import Line, Sheet


_PLAIN: dict[str, Any] = {"markup": False, "highlight": False, "emoji": False, "force_jupyter": False}
"""Console options: no markup, because names come from files, and no display of rich's own in a notebook."""


NARROWEST, WIDTH_OF_A_PIPE = 20, 80
"""Columns that are assumed at least, and where stdout is no terminal and COLUMNS is not set."""

_ASCII = str.maketrans({COMPUTES: "=", RECEIVES: "-", LITTLE: "."})
"""The marks of bars where the encoding has no lines."""


def width() -> int:
    """Return the columns that output has: COLUMNS if it is set, else the terminal's, and 80 for a pipe."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked):
        return max(int(asked), NARROWEST)
    with suppress(OSError, ValueError, AttributeError):
        return max(os.get_terminal_size(sys.stdout.fileno()).columns, NARROWEST)
    return WIDTH_OF_A_PIPE


class Page(NamedTuple):
    """What a command prints.

    Attributes:
        above: the answer, and below it what was asked.
        tables: tables, the first of them the answer in full.
        below: notes; a text without a label is a line of its own.
    """

    above: str = ""
    tables: Sequence[Sheet] = ()
    below: Sequence[Note | str] = ()

    def lines(self, columns: int) -> list[Line]:
        """Return its lines for a terminal of some columns, with an empty line between its parts."""
        parts: list[list[Line]] = []
        answer, _, asked = self.above.partition("\n")
        if self.above:
            text = [(line, "bold") for line in wrapped(answer, columns)]
            parts.append(
                [[piece] for piece in (*text, *((line, "") for line in wrapped(asked, columns) if asked))]
            )
        parts += [table.lines(columns) for table in self.tables]
        parts.append(_notes(self.below, columns))
        return apart(parts)


def _notes(below: Sequence[Note | str], columns: int) -> list[Line]:
    """Return the lines of notes, whose texts have one indent, and of texts without a label."""
    found: list[Line] = []
    for labelled, own in groupby(below, key=lambda note: isinstance(note, Note)):
        if labelled:
            notes = [note for note in own if isinstance(note, Note)]
            found += [[(label, "dim"), (text, "")] for label, text in note_lines(notes, columns)]
        else:
            texts = [note for note in own if isinstance(note, str)]
            found += [[(line, "")] for text in texts for line in _hanging(text, columns)]
    return found


def _hanging(text: str, columns: int) -> list[str]:
    """Break a text into lines of which all but the first are indented."""
    found = []
    for paragraph in text.splitlines():
        first, *others = wrapped(paragraph, min(columns, WIDEST_TEXT) - 2)
        found += [first, *(f"  {line}" for line in others)]
    return found


def hanging(text: str) -> str:
    """Break a text into lines for the terminal, of which all but the first are indented."""
    return "\n".join(_hanging(text, width()))


def as_text(page: Page) -> str:
    """Format a page as plain text."""
    lines = ("".join(text for text, _ in line).rstrip() for line in page.lines(width()))
    return "".join(f"{line}\n" for line in lines)


def show(*tables: Sheet, above: str = "", below: Iterable[Note | str] = ()) -> None:
    """Print tables between lines on stdout, coloured on a terminal, none wider than it."""
    show_page(Page(above, tables, tuple(below)))


def show_page(page: Page) -> None:
    """Print a page on stdout, coloured on a terminal, no line wider than it."""
    _print(page.lines(width()))


def _print(lines: Iterable[Line]) -> None:
    """Print lines on stdout, coloured on a terminal."""
    console, found = Console(**_PLAIN), [Text.assemble(*line) for line in lines]
    for line in found:
        line.rstrip()
    text = Text("\n").join(found)
    if not console.is_terminal:
        write(text.plain)
        return
    text.plain = _shown(text.plain, console.encoding)
    with _printing():
        console.print(text, soft_wrap=True)


def _shown(text: str, encoding: str) -> str:
    """Return a text without control characters, and with marks that an encoding has."""
    text = printable(text)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII)
    return text


def warn(text: str, *, aside: bool = False) -> None:
    """Print an important line, in red if the console has colours.

    Args:
        text: the line.
        aside: whether it goes to stderr, because stdout carries data.
    """
    if aside:
        note(text, style="bold red")
    else:
        _print([[(hanging(text), "bold red")]])


def write(text: str, *, document: bool = False) -> None:
    """Print text on stdout, with ``?`` for characters that the terminal's encoding lacks; a file's content in UTF-8 as files are.

    Raises:
        DocumentError: stdout cannot be written to.
    """
    with _printing() as stream:
        encoding = "utf-8" if document else stream.encoding or "utf-8"
        content = _shown(text if text.endswith("\n") else f"{text}\n", encoding).encode(encoding, "replace")
        if document and hasattr(stream, "buffer"):
            stream.flush()
            stream.buffer.write(content)
        else:
            stream.write(content.decode(encoding))


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


def write_lines(lines: Sequence[str]) -> None:
    """Print lines on stdout, the first of them, which is the answer, bold on a terminal."""
    _print([(line, "" if number else "bold")] for number, line in enumerate(lines))


def write_json(data: Any) -> None:
    """Print plain data on stdout as JSON."""
    write(format_json(data), document=True)


PATIENCE_S, REFRESH_S, EVERY_S = 0.5, 0.1, 10.0
"""Seconds of work before a progress bar appears, until it is brought up to date, and between lines where there is none."""


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show on stderr what is being done and how far it is: a terminal has a bar, removed at the end, anything else lines.

    The bar appears after ``PATIENCE_S``, a line every ``EVERY_S``. What is done is what the work tells of itself
    (``hypar.activity``).

    Args:
        what: what is done, until the work tells more.

    Yields:
        A function that takes the number of finished steps and the number of all.
    """
    state: dict[str, Any] = {"description": printable(what), "total": None, "completed": 0}
    ended = threading.Event()
    watching = threading.Thread(target=_watch, args=(state, ended), daemon=True)
    watching.start()
    try:
        with listening(lambda told: state.update(description=printable(told))):
            yield lambda done, of: state.update(completed=done, total=of)
    finally:
        ended.set()
        watching.join()


def _watch(state: dict[str, Any], ended: threading.Event) -> None:
    """Show the state of some work until it has ended."""
    began_s = time.monotonic()
    dumb = Console(stderr=True, force_jupyter=False).is_dumb_terminal
    if sys.stderr is None or not sys.stderr.isatty() or dumb:
        while not ended.wait(EVERY_S):
            of = state["total"]
            far = "" if of is None else f"{state['completed']:,} of {of:,}, "
            note(f"{state['description']}: {far}{time.monotonic() - began_s:.0f} s")
    elif not ended.wait(PATIENCE_S):
        with _bar() as bar:
            task = bar.add_task(**state)
            while not ended.wait(REFRESH_S):
                bar.update(task, **state)


def _bar() -> Progress:
    """Return a bar of no work yet."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 (only where there is one to see it)
    from rich.table import Column  # noqa: PLC0415 (as above)

    columns = (
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    options: dict[str, Any] = {"redirect_stdout": False, "redirect_stderr": False, "transient": True}
    return Progress(*columns, console=Console(stderr=True), **options)


def note(text: str, style: str = "dim") -> None:
    """Print a note on stderr."""
    with suppress(OSError):
        Console(stderr=True, soft_wrap=True, **_PLAIN).print(printable(text), style=style)
