"""The program ``hypar``, also as ``python -m hypar``."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress


def run() -> None:
    """Run the command line; an interrupt ends it with one line and status 130, as shells have it."""
    # Pydantic would read the metadata of every installed distribution for plug-ins that watch its validators.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    if sys.stdout is None:  # closed: replace it by a stream that reports so when something is printed
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    try:
        from hypar.cli.main import main  # noqa: PLC0415 (an interrupt may come meanwhile)

        gc.set_threshold(200_000)  # almost all objects of a plan stay until the end
        main()
    except SystemExit as ended:
        status = ended.code
    except KeyboardInterrupt:
        status = 130
        print("interrupted", file=sys.stderr)  # noqa: T201
    except BaseException as error:  # noqa: BLE001 (whatever it is)
        status = _unexpected(error)
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:  # a full disk or a closed pipe: Python would flush it again at exit, and complain
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    gc.freeze()  # the process ends: its memory need not be searched for garbage
    sys.exit(status)


def _unexpected(error: BaseException) -> int:
    """Ask for a report of an error that hypar does not raise on purpose, and return ``EX_SOFTWARE`` of sysexits.h."""
    from hypar.errors import printable, reason  # noqa: PLC0415 (only where something failed)

    line = f"error: hypar failed: {reason(error)}; please report it, with what HYPAR_TRACEBACK=1 prints"
    with suppress(OSError):
        if os.environ.get("HYPAR_TRACEBACK") == "1":
            sys.excepthook(type(error), error, error.__traceback__)
        print(printable(line), file=sys.stderr)  # noqa: T201
    return 70


if __name__ == "__main__":
    run()
