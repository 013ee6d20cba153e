"""The place where a file's content goes: a new file beside the old and in its place, or a stream."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""How a new file is opened; its mode is what the umask leaves of 0666."""


class Target(NamedTuple):
    """The place where a file's content goes.

    Attributes:
        path: the file itself, links followed.
        before: the status of the file that stands there; None where there is none.
        stream: the device or pipe to write to, or the descriptor of stdout or stderr; None for a file.
    """

    path: Path
    before: os.stat_result | None
    stream: Path | int | None

    @classmethod
    def of(cls, file: Path) -> Target:
        """Follow the links of a path, and see that it can be written to.

        Raises:
            OSError: the file may not be written, its folder is missing or may not be written, or it is a folder.
            ValueError: the path is no name of a file.
        """
        try:
            before = file.stat()
        except FileNotFoundError:
            before = None
        path = Path(os.path.realpath(file))
        stream = None if before is None else _stream(file, before)
        if stream is None:
            if before is not None:
                _require(not stat.S_ISDIR(before.st_mode), errno.EISDIR)
                _require(os.access(path, os.W_OK), errno.EACCES)
            _require(stat.S_ISDIR(path.parent.stat().st_mode), errno.ENOTDIR)
            _require(os.access(path.parent, os.W_OK | os.X_OK), errno.EACCES)
        return cls(path, before, stream)

    def write(self, content: bytes) -> None:
        """Write all of it or, to a file, nothing.

        Raises:
            OSError: it cannot be written.
        """
        if self.stream is None:
            self._rename_over(content)
        else:
            _write_through(self.stream, content)

    def _rename_over(self, content: bytes) -> None:
        """Write a new file, sync it to the disk, and rename it to the old."""
        # The name is known before the file is there, so that an interrupt at any moment leaves none behind.
        beside = self.path.with_name(f".hypar-{secrets.token_hex(8)}")
        try:
            with os.fdopen(os.open(beside, _NEW_FILE, 0o666), "wb") as stream:
                stream.write(content)
                self._keep_attributes(beside)
                stream.flush()
                os.fsync(stream.fileno())
            beside.replace(self.path)
            _sync_folder(self.path.parent)
        finally:
            with suppress(OSError):
                beside.unlink()

    def _keep_attributes(self, beside: Path) -> None:
        """Give the new file the mode of the old, and its owner where that is allowed."""
        if self.before is None:
            return
        with suppress(OSError, AttributeError):  # only root may give files away; Windows knows no owners
            os.chown(beside, self.before.st_uid, self.before.st_gid)
        beside.chmod(stat.S_IMODE(self.before.st_mode))


def _stream(file: Path, status: os.stat_result) -> Path | int | None:
    """Return the stream that a path names; None where it names a file or a folder.

    What stdout and stderr go to is one, even if that is a file: ``/dev/stdout`` leads there, and to put another
    file in its place would lose what is printed.
    """
    for descriptor in (1, 2):
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), status):
                return descriptor
    return None if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) else file


def _write_through(stream: Path | int, content: bytes) -> None:
    """Write to a stream, after all that was printed before."""
    for standard in filter(None, (sys.stdout, sys.stderr)):
        standard.flush()
    opened = os.dup(stream) if isinstance(stream, int) else stream
    with open(opened, "wb") as opened_stream:  # noqa: PTH123 (a descriptor has no path)
        opened_stream.write(content)


def _require(holds: bool, number: int) -> None:
    """Raise the system's error of a number, as an attempt to write would, unless something holds."""
    if not holds:
        raise OSError(number, os.strerror(number))


def _sync_folder(folder: Path) -> None:
    """Sync the new name in a folder to the disk, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
