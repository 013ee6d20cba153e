"""Output to a terminal or a pipe: results on stdout, notes on stderr."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from shutil import get_terminal_size
from typing import Any, TextIO

import click

from hypar.activity import COUNTER, LISTENER, holding
from hypar.document import Document, Note
from hypar.errors import printable
from hypar.files.text import refused
from hypar.reports.text import ASCII, plain, render

NARROWEST, WIDTH_OF_A_PIPE = 20, 80
"""Columns that are assumed at least, and where stdout is no terminal and COLUMNS is not set."""

PATIENCE_S, REFRESH_S, EVERY_S = 0.5, 0.1, 10.0
"""Seconds of work before progress is shown, until its line is brought up to date, and between lines where it cannot be."""

_ERASE = "\r\x1b[2K"
"""The ANSI code that clears the line of progress."""


def width() -> int:
    """Return the columns of the terminal: COLUMNS if it is set, and 80 for a pipe."""
    return max(get_terminal_size((WIDTH_OF_A_PIPE, 0)).columns, NARROWEST)


def show_document(document: Document, *, full: bool | None = None, folded: bool = False) -> None:
    """Print a document on stdout, unless in full without notes on details, coloured on a terminal; raises as ``write``.

    If it could be in full, a last note names the option for what is left out; ``folded`` says that it is rows of layers too.
    """
    shown = document if full else document.shortened()
    details = len(document.notes) - len(shown.notes)
    left_out = ["every layer"] * folded + [f"{details} more note{'s' * (details > 1)}"] * bool(details)
    if full is False and left_out:
        shown = replace(shown, notes=(*shown.notes, Note("more", f"--full shows {' and '.join(left_out)}")))
    lines = render(shown, width())
    if _coloured(sys.stdout):
        write("".join("".join(_styled(*own) for own in line) + "\n" for line in lines), styled=True)
    else:
        write(plain(lines))


def note(text: str, style: str = "dim") -> None:
    """Print a note on stderr."""
    with suppress(OSError, AttributeError):
        _put(sys.stderr, (_styled(text, style) if _coloured(sys.stderr) else printable(text)) + "\n")


def write(text: str, *, document: bool = False, styled: bool = False) -> None:
    """Print text on stdout, with ``?`` for characters that the terminal's encoding lacks; a file's content in UTF-8 as files are.

    A text that is not ``styled`` already has ``?`` for control characters. Raises ``DocumentError`` where stdout cannot be
    written to, at once and not at the end of the program.
    """
    content = (text if styled else printable(text)).removesuffix("\n") + "\n"
    try:
        if document and hasattr(sys.stdout, "buffer"):
            sys.stdout.flush()
            sys.stdout.buffer.write(content.encode("utf-8", "replace"))
            content = ""
        _put(sys.stdout, content)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise refused(error) from error


def _put(stream: TextIO, text: str) -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(ASCII).encode(encoding, "replace").decode(encoding)
    stream.write(text)
    stream.flush()


def _coloured(stream: TextIO) -> bool:
    """Return whether a stream shows styles: a terminal's, unless the environment says otherwise."""
    windows = os.name == "nt" and "WT_SESSION" not in os.environ
    terminal = bool(os.environ.get("FORCE_COLOR")) or (stream is not None and stream.isatty() and not windows)
    return terminal and os.environ.get("TERM", "") != "dumb"


def _styled(text: str, style: str) -> str:
    """Return a text with the codes of its style, without colours where https://no-color.org asks for none."""
    words, text = {*style.split()}, printable(text)
    colour = None if os.environ.get("NO_COLOR") else next(iter(words - {"bold", "dim"}), None)
    own: dict[str, Any] = {"fg": colour} | dict.fromkeys(words & {"bold", "dim"}, True)
    return click.style(text, **own) if text.strip() and any(own.values()) else text


@contextmanager
def progress_bar(what: str) -> Iterator[None]:
    """Show on stderr what is done, until the work tells more, and for how long: on a terminal in a line that is removed again."""
    state, ended = {"what": what, "far": ""}, threading.Event()
    watching = threading.Thread(target=_watch, args=(state, ended), daemon=True)
    watching.start()
    try:
        with (
            holding(LISTENER, lambda told: state.update(what=told)),
            holding(COUNTER, lambda done, of: state.update(far=f"{done:,} of {of:,}, ")),
        ):
            yield
    finally:
        ended.set()
        watching.join()


def _watch(state: dict[str, str], ended: threading.Event) -> None:
    began_s, stream, drawn = time.monotonic(), sys.stderr, False
    live = stream is not None and stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    while not ended.wait(REFRESH_S if live else EVERY_S):
        seconds = time.monotonic() - began_s
        what, tail = printable(state["what"]), f": {state['far']}{seconds:.0f} s"
        if not live:
            note(what + tail)
        elif seconds > PATIENCE_S:
            drawn = True
            with suppress(OSError):
                _put(stream, _ERASE + what[: max(width() - len(tail) - 1, 0)] + tail)
    if drawn:
        with suppress(OSError):
            _put(stream, _ERASE)
