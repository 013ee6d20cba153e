"""Targets of a write: a new file that replaces the old one, or a stream."""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Flags for opening a new file; the umask applies to its mode of 0666."""


class Target(NamedTuple):
    """The target of a write.

    Attributes:
        path: the file itself, with links followed.
        before: status of the existing file; None if there is none.
        stream: device or pipe to write to, or the descriptor of stdout or stderr; None for a file.
    """

    path: Path
    before: os.stat_result | None
    stream: Path | int | None

    @classmethod
    def of(cls, file: Path) -> Target:
        """Follow the links of a path, and check that it is writable.

        Raises:
            OSError: the file or its folder is not writable, the folder is missing, or the path is a folder.
            ValueError: the path is not a valid name of a file.
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
        """Write the content, to a file atomically.

        Raises:
            OSError: the content cannot be written.
        """
        if self.stream is None:
            self._rename_over(content)
        else:
            _write_through(self.stream, content)

    def _rename_over(self, content: bytes) -> None:
        """Write a new file, sync it to disk, and rename it to the target."""
        # The name is known before the file exists, so that an interrupt at any moment leaves no file behind.
        beside = self.path.with_name(f".hypar-{os.urandom(8).hex()}")
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
        """Copy the old file's mode, and its owner if permitted, to the new file."""
        if self.before is None:
            return
        with suppress(OSError, AttributeError):  # only root may give files away; Windows knows no owners
            os.chown(beside, self.before.st_uid, self.before.st_gid)
        beside.chmod(stat.S_IMODE(self.before.st_mode))


def _stream(file: Path, status: os.stat_result) -> Path | int | None:
    """Return the stream that a path names; None for a file or a folder.

    The targets of stdout and stderr count as streams even if they are files: ``/dev/stdout`` leads to them, and
    replacing such a file would lose the printed output.
    """
    for descriptor in (1, 2):
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), status):
                return descriptor
    return None if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) else file


def _write_through(stream: Path | int, content: bytes) -> None:
    """Write to a stream, after all earlier output."""
    for standard in filter(None, (sys.stdout, sys.stderr)):
        standard.flush()
    opened = os.dup(stream) if isinstance(stream, int) else stream
    with open(opened, "wb") as opened_stream:  # noqa: PTH123 (a descriptor has no path)
        opened_stream.write(content)


def _require(holds: bool, number: int) -> None:
    """Raise the operating system's error of a number unless a condition holds."""
    if not holds:
        raise OSError(number, os.strerror(number))


def _sync_folder(folder: Path) -> None:
    """Sync a folder's new name to disk if the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
