"""The program ``hypar``, also as ``python -m hypar``."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # a module less to import before interrupts are handled
if TYPE_CHECKING:
    from typing import TextIO


def run() -> None:
    """Run the command line; an interrupt ends it with one line, from the first import on."""
    try:
        sys.unraisablehook = _unraisable
        sys.exit(_run())
    except KeyboardInterrupt:
        _leave()


def _leave() -> None:
    """End at once."""
    os.write(2, b"interrupted\n")
    os._exit(130)


def _unraisable(found: sys.UnraisableHookArgs) -> None:
    """Heed an interrupt that Python would print and forget."""
    if found.exc_type is KeyboardInterrupt:
        _leave()
    sys.__unraisablehook__(found)


def _run() -> int | str | None:
    """Run a command, and return its exit status."""
    from hypar.cli.interrupts import LINE, STATUS, Interrupts  # noqa: PLC0415 (an interrupt may come meanwhile)

    interrupts = Interrupts()
    if sys.stdout is None:  # it is closed: a stream in its place that says so, where it would be printed to
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    status: int | str | None = 0
    try:
        from hypar.cli.main import main  # noqa: PLC0415 (as above)

        main()
    except SystemExit as ended:
        status = ended.code
    except BaseException:
        if not interrupts.came:
            raise
    interrupts.done()
    if interrupts.came and status != STATUS:
        # Something made another error of the interrupt, or none.
        status = STATUS
        print(LINE, file=sys.stderr)  # noqa: T201
    for stream in filter(None, (sys.stdout, sys.stderr)):
        _settle(stream)
    return status


def _settle(stream: TextIO) -> None:
    """Turn away from the disk or pipe that took no more: Python would try again at its end, and complain."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    run()
