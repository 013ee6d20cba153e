"""Text files: read whole, written whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.errors import DocumentError
from hypar.files.targets import Target

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 64 * 2**20
"""Bytes of one file."""


def read_text(file: Path) -> str:
    """The text of a file.

    Raises:
        DocumentError: it is missing, a folder, too large, or not text.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise DocumentError(str(file), f"cannot be read: {_reason(error)}") from error
    if len(content) > MOST_BYTES:
        raise DocumentError(str(file), "the file is too large", f"at most {MOST_BYTES:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DocumentError(
            f"{file}:{line}", f"found byte 0x{content[error.start]:02x}", "UTF-8 text"
        ) from error


def require_writable(file: Path) -> None:
    """Refuse a file that could not be written, before anything is computed for it.

    Raises:
        DocumentError: the file may not be written, its folder is missing or may not be, or it is no name of a file.
    """
    try:
        Target.of(file)
    except (OSError, ValueError) as error:
        raise _not_written(file, error) from error


def make_folder(folder: Path) -> None:
    """Make a folder, and those around it, where there is none.

    Raises:
        DocumentError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DocumentError(str(folder), f"cannot be made: {error.strerror}") from error


def write_text(file: Path, text: str) -> None:
    """Write a text whole or not at all, as ``write_bytes`` does.

    Raises:
        DocumentError: the file cannot be written.
    """
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DocumentError(str(file), f"cannot be written: {error}") from error
    write_bytes(file, content)


def write_bytes(file: Path, content: bytes) -> None:
    """Write a file whole or not at all: beside it first, then renamed, each step synced to the disk.

    A link stays and the file that it leads to is written. A file that exists keeps its mode, and its owner where
    that is allowed. A device or a pipe is written to, as renaming would put a file in its place.

    Raises:
        DocumentError: the file cannot be written.
    """
    try:
        Target.of(file).write(content)
    except (OSError, ValueError) as error:
        raise _not_written(file, error) from error


def not_printed(error: OSError | ValueError) -> DocumentError:
    """Return the error for standard output that takes no more: its disk is full, or its pipe or itself is closed."""
    return DocumentError("standard output", f"cannot be written: {_reason(error)}")


def _not_written(file: Path, error: OSError | ValueError) -> DocumentError:
    """The error for a file that cannot be written."""
    return DocumentError(str(file), f"cannot be written: {_reason(error)}")


def _reason(error: OSError | ValueError) -> str:
    """Why a file could not be opened, read or written, without its name."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
