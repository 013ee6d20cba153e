"""The program ``hypar``, also as ``python -m hypar``."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress

TYPE_CHECKING = False  # saves importing typing before interrupts are handled
if TYPE_CHECKING:
    from typing import TextIO


def run() -> None:
    """Run the command line; an interrupt at any time ends it with one line."""
    try:
        sys.unraisablehook = _unraisable
        sys.exit(_run())
    except KeyboardInterrupt:
        _leave()


def _leave() -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)


def _unraisable(found: sys.UnraisableHookArgs) -> None:
    """End on an interrupt that Python would only print."""
    if found.exc_type is KeyboardInterrupt:
        _leave()
    sys.__unraisablehook__(found)


def _run() -> int | str | None:
    """Run a command and return its exit status."""
    from hypar.activity import SELDOM  # noqa: PLC0415 (as below)
    from hypar.cli.interrupts import LINE, STATUS, Interrupts  # noqa: PLC0415 (an interrupt may come meanwhile)

    # Almost everything made by imports stays until the end as well. Garbage in cycles is still freed, in larger portions.
    gc.set_threshold(SELDOM)
    # Pydantic would read the metadata of every installed distribution for plug-ins that watch its validators.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    interrupts = Interrupts()
    if sys.stdout is None:  # closed: replace it by a stream that reports so when something is printed
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    status: int | str | None = 0
    try:
        from hypar.cli.main import main  # noqa: PLC0415 (as above)

        main()
    except SystemExit as ended:
        status = ended.code
    except BaseException as error:  # noqa: BLE001 (whatever it is)
        if not interrupts.came:
            status = _unexpected(error)
    interrupts.done()
    if interrupts.came and status != STATUS:
        # The interrupt was turned into another error, or swallowed.
        status = STATUS
        print(LINE, file=sys.stderr)  # noqa: T201
    for stream in filter(None, (sys.stdout, sys.stderr)):
        _settle(stream)
    gc.freeze()  # the process ends: its memory need not be searched for garbage
    return status


def _unexpected(error: BaseException) -> int:
    """Ask for a report of an error that hypar does not raise deliberately, and return the exit status: ``EX_SOFTWARE`` of sysexits.h."""
    from hypar.errors import printable, reason  # noqa: PLC0415 (only where something failed)

    line = f"error: hypar failed: {reason(error)}; please report it, with what HYPAR_TRACEBACK=1 prints"
    with suppress(OSError):
        if os.environ.get("HYPAR_TRACEBACK") == "1":
            sys.excepthook(type(error), error, error.__traceback__)
        print(printable(line), file=sys.stderr)  # noqa: T201
    return 70


def _settle(stream: TextIO) -> None:
    """Redirect a stream whose disk or pipe is full or closed: Python would flush it again at exit, and complain."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    run()
