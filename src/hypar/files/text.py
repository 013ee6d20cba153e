"""Reading of text files, and atomic writing of files."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from hypar.errors import DocumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 64 * 2**20
"""Largest size of a file in bytes."""


def read_text(file: Path) -> str:
    """Return the text of a file.

    Raises:
        DocumentError: the file is missing, a folder, too large, or not text.
    """
    with _told(file, "read"), file.open("rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise DocumentError(str(file), "the file is too large", f"at most {MOST_BYTES:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = f"{file}:{content.count(10, 0, error.start) + 1}"
        raise DocumentError(place, f"found byte 0x{content[error.start]:02x}", "UTF-8 text") from error


def require_writable(file: Path) -> None:
    """Raise if a file could not be written, before anything is computed for it.

    Raises:
        DocumentError: the file or its folder is not writable, the folder is missing, or the name is invalid.
    """
    with _told(file, "written"):
        _target(file)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents unless they exist.

    Raises:
        DocumentError: the folder cannot be created.
    """
    with _told(folder, "made"):
        folder.mkdir(parents=True, exist_ok=True)


def write_text(file: Path, text: str) -> None:
    """Write a text atomically, like ``write_bytes``, with ? for half a character."""
    write_bytes(file, text.encode("utf-8", "replace"))


def write_bytes(file: Path, content: bytes) -> None:
    """Write a file atomically: a new file beside it is written, then renamed; a link is followed, an old file's mode kept.

    A device or a pipe is written to directly.

    Raises:
        DocumentError: the file cannot be written.
    """
    with _told(file, "written"):
        path, mode = _target(file)
        if mode is not None and not stat.S_ISREG(mode):
            path.write_bytes(content)
        else:
            _replace(path, content, mode)


def not_printed(error: OSError | ValueError) -> DocumentError:
    """Return the error for standard output that is closed or cannot take more."""
    return _refused("standard output", "written", error)


def _target(file: Path) -> tuple[Path, int | None]:
    """Return the file behind links and its mode, None if it is new; raise an error of the system if it cannot be written."""
    path = Path(os.path.realpath(file))
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        path.parent.stat()
        mode = None
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    replaced = [path.parent] if mode is None else [path.parent, path] if stat.S_ISREG(mode) else [path]
    if not all(os.access(place, os.W_OK) for place in replaced):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return path, mode


def _replace(path: Path, content: bytes, mode: int | None) -> None:
    """Put a new file in the place of an old one, whole or not at all."""
    new = path.with_name(f".{uuid4().hex}.tmp")
    try:
        with new.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if mode is not None:
            new.chmod(stat.S_IMODE(mode))
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def _told(file: Path, what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise _refused(str(file), what, error) from error


def _refused(where: str, what: str, error: OSError | ValueError) -> DocumentError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return DocumentError(where, f"cannot be {what}: {reason}")
