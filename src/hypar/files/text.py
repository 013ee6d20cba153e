"""Reading of text files, and atomic writing of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.errors import DocumentError
from hypar.files.targets import Target

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 64 * 2**20
"""Largest size of a file in bytes."""


def read_text(file: Path) -> str:
    """Return the text of a file.

    Raises:
        DocumentError: the file is missing, a folder, too large, or not text.
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
    """Raise if a file could not be written, before anything is computed for it.

    Raises:
        DocumentError: the file or its folder is not writable, the folder is missing, or the name is invalid.
    """
    try:
        Target.of(file)
    except (OSError, ValueError) as error:
        raise _not_written(file, error) from error


def make_folder(folder: Path) -> None:
    """Create a folder and its parents unless they exist.

    Raises:
        DocumentError: the folder cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DocumentError(str(folder), f"cannot be made: {error.strerror}") from error


def write_text(file: Path, text: str) -> None:
    """Write a text atomically, like ``write_bytes``.

    Raises:
        DocumentError: the file cannot be written.
    """
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DocumentError(str(file), f"cannot be written: {error}") from error
    write_bytes(file, content)


def write_bytes(file: Path, content: bytes) -> None:
    """Write a file atomically: a new file is written and synced, then renamed to the target.

    A link is followed to its target. An existing file keeps its mode, and its owner if permitted. A device or a pipe
    is written to directly, as renaming would replace it by a file.

    Raises:
        DocumentError: the file cannot be written.
    """
    try:
        Target.of(file).write(content)
    except (OSError, ValueError) as error:
        raise _not_written(file, error) from error


def not_printed(error: OSError | ValueError) -> DocumentError:
    """Return the error for standard output that is closed or cannot take more."""
    return DocumentError("standard output", f"cannot be written: {_reason(error)}")


def _not_written(file: Path, error: OSError | ValueError) -> DocumentError:
    return DocumentError(str(file), f"cannot be written: {_reason(error)}")


def _reason(error: OSError | ValueError) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
