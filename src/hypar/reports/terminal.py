"""Output to a terminal or a pipe: results on stdout, notes on stderr."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

from hypar.activity import listening
from hypar.document import Note
from hypar.errors import printable
from hypar.files.text import format_json, not_printed
from hypar.reports.text import ASCII, FIRST, plain, render, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hypar.document import Document
    from hypar.reports.text import Line

NARROWEST, WIDTH_OF_A_PIPE = 20, 80
"""Columns that are assumed at least, and where stdout is no terminal and COLUMNS is not set."""

PATIENCE_S, REFRESH_S, EVERY_S = 0.5, 0.1, 10.0
"""Seconds of work before a progress bar appears, until it is brought up to date, and between lines where there is none."""

BAR = 20
"""Characters of a progress bar."""

_CODES = {
    "bold": 1,
    "dim": 2,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "magenta": 35,
    "cyan": 36,
    "bright_blue": 94,
}
"""The ANSI codes of the words of a style."""

_ERASE, _HIDE, _SHOW = "\r\x1b[2K", "\x1b[?25l", "\x1b[?25h"
"""The codes that erase a line, hide the cursor and show it."""


def width(stream: TextIO | None = None) -> int:
    """Return the columns that a stream, stdout unless given, has: COLUMNS if it is set, else the terminal's, and 80 for a pipe."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked):
        return max(int(asked), NARROWEST)
    with suppress(OSError, ValueError, AttributeError):
        return max(os.get_terminal_size((stream or sys.stdout).fileno()).columns, NARROWEST)
    return WIDTH_OF_A_PIPE


def show_document(document: Document, *, full: bool = False) -> None:
    """Print a document on stdout, in full with the notes on details, coloured on a terminal; raises as ``write``."""
    print_lines(render(document, width(), full=full))


def show_shortened(document: Document, *, full: bool, folded: bool = False) -> None:
    """Print a document; unless in full, its last note names the option that shows what is left out.

    ``folded`` says that a row of its table stands for several layers.
    """
    details = sum(note.detail for note in document.notes)
    left_out = ["every layer"] * folded + [f"{details} more note{'s' * (details > 1)}"] * bool(details)
    more = [] if full or not left_out else [Note("more", f"--full shows {' and '.join(left_out)}")]
    show_document(replace(document, notes=(*document.notes, *more)), full=full)


def print_lines(lines: Sequence[Line]) -> None:
    """Print lines on stdout, coloured on a terminal; raises as ``write``."""
    if _coloured(sys.stdout):
        write("".join("".join(_styled(*own) for own in line) + "\n" for line in lines), styled=True)
    else:
        write(plain(lines))


def warn(text: str, *, to_stderr: bool = False) -> None:
    """Print an important line in red, on stderr where stdout carries data."""
    if to_stderr:
        note(text, style="bold red")
    else:
        print_lines([[(line, "bold red")] for line in wrapped(text, width())])


def note(text: str, style: str = "dim") -> None:
    """Print a note on stderr."""
    with suppress(OSError, AttributeError):
        line = _styled(text, style) if _coloured(sys.stderr) else printable(text)
        sys.stderr.write(_encodable(line, sys.stderr) + "\n")
        sys.stderr.flush()


def write(text: str, *, document: bool = False, styled: bool = False) -> None:
    """Print text on stdout, with ``?`` for characters that the terminal's encoding lacks; a file's content in UTF-8 as files are.

    A text that is not ``styled`` already has ``?`` for control characters.

    Raises:
        DocumentError: stdout cannot be written to, at once and not at the end of the program.
    """
    content = (text if styled else printable(text)).removesuffix("\n") + "\n"
    stream = sys.stdout
    try:
        if document and hasattr(stream, "buffer"):
            stream.flush()
            stream.buffer.write(content.encode("utf-8", "replace"))
        else:
            stream.write(_encodable(content, stream))
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise not_printed(error) from error


def write_json(data: Any) -> None:
    """Print plain data on stdout as JSON."""
    write(format_json(data), document=True)


def _encodable(text: str, stream: TextIO) -> str:
    """Return a text with characters that a stream's encoding has."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(ASCII).encode(encoding, "replace").decode(encoding)
    return text


def _coloured(stream: TextIO) -> bool:
    """Return whether a stream shows styles: a terminal's, unless the environment says otherwise."""
    windows = os.name == "nt" and "WT_SESSION" not in os.environ
    terminal = bool(os.environ.get("FORCE_COLOR")) or (stream is not None and stream.isatty() and not windows)
    return terminal and os.environ.get("TERM", "") != "dumb"


def _styled(text: str, style: str) -> str:
    """Return a text with the codes of its style, without colours where https://no-color.org asks for none."""
    text, most = printable(text), _CODES["dim"] if os.environ.get("NO_COLOR") else max(_CODES.values())
    codes = [str(code) for code in map(_CODES.__getitem__, style.split()) if code <= most]
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes and text.strip() else text


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show on stderr what is done and how far it is: a terminal has a bar, removed at the end, anything else lines.

    ``what`` is done until the work tells more (``hypar.activity``); yielded is a function that takes the number of finished
    steps and the number of all.
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
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        while not ended.wait(EVERY_S):
            of = state["total"]
            far = "" if of is None else f"{state['completed']:,} of {of:,}, "
            note(f"{state['description']}: {far}{time.monotonic() - began_s:.0f} s")
    elif not ended.wait(PATIENCE_S):
        with suppress(OSError):
            sys.stderr.write(_HIDE)
            while not ended.wait(REFRESH_S):
                sys.stderr.write(_ERASE + _bar(state, time.monotonic() - began_s))
                sys.stderr.flush()
            sys.stderr.write(_ERASE + _SHOW)
            sys.stderr.flush()


def _bar(state: dict[str, Any], seconds: float) -> str:
    """Return one line: what is done, a bar and numbers of how far it is, and for how long."""
    done, of = state["completed"], state["total"]
    full = round(BAR * done / of) if of else 0
    far = f" {FIRST * full}{' ' * (BAR - full)} {done:,}/{of:,}" if of else ""
    tail = f"{far} {int(seconds) // 60}:{int(seconds) % 60:02d}"
    room = width(sys.stderr) - len(tail) - 1
    return _encodable(state["description"][: max(room, 0)] + tail, sys.stderr)
