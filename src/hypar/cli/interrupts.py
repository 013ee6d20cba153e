"""Interrupts of the command line: one line and exit status 130, whenever they come.

A ``KeyboardInterrupt`` alone does not give that. Python prints and forgets one that is raised where nothing can
catch it, as in the callback of a weak reference; a module that is being imported may make another error of it;
and a second one, as ``timeout`` sends, can end the cleaning up after the first.
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
"""The exit status: 128 and the number of the signal, as a shell has it."""

LINE = "interrupted"

PATIENCE_S = 1.0
"""Seconds that cleaning up may take until a further interrupt ends the program at once."""

_SHOW_CURSOR = b"\r\x1b[K\x1b[?25h"
"""What a progress bar that is left alone needs: an empty line and the cursor."""


class Interrupts:
    """Handles the interrupts of one program.

    Attributes:
        came: whether there was one.
    """

    def __init__(self) -> None:
        """Handle them from now on."""
        self.came = False
        self._first_s = 0.0
        signal.signal(signal.SIGINT, self._handle)
        sys.unraisablehook = self._unraisable

    def done(self) -> None:
        """Ignore them from now on, as the work is done."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _handle(self, _number: int, frame: FrameType | None) -> None:
        """Raise the first, and ignore others while things are cleaned up; where modules are imported, nothing is."""
        now_s = time.monotonic()
        if _importing(frame) or (self.came and now_s - self._first_s > PATIENCE_S):
            leave()
        if not self.came:
            self.came, self._first_s = True, now_s
            raise KeyboardInterrupt

    def _unraisable(self, found: sys.UnraisableHookArgs) -> None:
        """Interrupt again, a moment later, where Python would forget an interrupt."""
        if found.exc_type is not KeyboardInterrupt:
            sys.__unraisablehook__(found)
            return
        self.came = False
        threading.Timer(0.001, signal.raise_signal, [signal.SIGINT]).start()


def leave() -> NoReturn:
    """Say it and end the program, whatever it does."""
    if os.isatty(2) and os.environ.get("TERM", "dumb") != "dumb":
        os.write(2, _SHOW_CURSOR)
    os.write(2, f"{LINE}\n".encode())
    os._exit(STATUS)


def _importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
