"""Interrupts of the command line: always one line and exit status 130.

A ``KeyboardInterrupt`` alone does not guarantee this. Python prints and forgets an interrupt raised where nothing can
catch it, as in the callback of a weak reference; a module that is being imported may turn it into another error;
and a second interrupt, as ``timeout`` sends, can end the cleanup after the first.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

STATUS = 130
"""The exit status: 128 plus the number of the signal, the shell's convention."""

LINE = "interrupted"

PATIENCE_S = 1.0
"""Seconds allowed for cleanup before a further interrupt ends the program at once."""

AGAIN_S = 0.05
"""Seconds until a forgotten interrupt comes again: long enough for the hook that was told of it to return."""

_SHOW_CURSOR = b"\r\x1b[K\x1b[?25h"
"""Escape codes that clear the line of an abandoned progress bar and show the cursor again."""


class Interrupts:
    """A handler of the interrupts of one program.

    Attributes:
        came: whether an interrupt came.
    """

    def __init__(self) -> None:
        """Install the handler."""
        self.came = False
        self._first_s = 0.0
        signal.signal(signal.SIGINT, self._handle)
        sys.unraisablehook = self._unraisable

    def done(self) -> None:
        """Ignore further interrupts: the work is done."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _handle(self, _number: int, frame: FrameType | None) -> None:
        """Raise on the first interrupt and ignore others during cleanup; leave at once while a module is imported."""
        now_s = time.monotonic()
        if _importing(frame) or (self.came and now_s - self._first_s > PATIENCE_S):
            leave()
        if not self.came:
            self.came, self._first_s = True, now_s
            raise KeyboardInterrupt

    def _unraisable(self, found: sys.UnraisableHookArgs) -> None:
        """Raise the signal again a moment later if Python would forget an interrupt."""
        if found.exc_type is not KeyboardInterrupt:
            sys.__unraisablehook__(found)
            return
        self.came = False
        threading.Timer(AGAIN_S, signal.raise_signal, [signal.SIGINT]).start()


def leave() -> NoReturn:
    """Print the line and end the program at once."""
    if os.isatty(2) and os.environ.get("TERM", "dumb") != "dumb":
        os.write(2, _SHOW_CURSOR)
    os.write(2, f"{LINE}\n".encode())
    os._exit(STATUS)


def _importing(frame: FrameType | None) -> bool:
    """Return whether a module is being imported."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
