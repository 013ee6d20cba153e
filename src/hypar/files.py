"""Text files: read whole, written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from hypar.errors import DocumentError

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
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DocumentError(str(file), f"cannot be read: {reason}") from error
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
        DocumentError: its folder is missing, it is a folder itself, or no name of a file.
    """
    try:
        missing = not stat.S_ISDIR(file.parent.stat().st_mode)
        reason = "Not a directory" if missing else "Is a directory" if file.is_dir() else ""
        file.exists()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if reason:
        raise DocumentError(str(file), f"cannot be written: {reason}")


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
    """Write a text whole or not at all.

    Raises:
        DocumentError: its folder is missing or cannot be written to.
    """
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DocumentError(str(file), f"cannot be written: {error}") from error
    write_bytes(file, content)


def write_bytes(file: Path, content: bytes) -> None:
    """Write a file whole or not at all: beside it first, then renamed.

    Raises:
        DocumentError: its folder is missing or cannot be written to.
    """
    temporary = None
    try:
        if file.exists() and not (file.is_file() or file.is_dir()):
            # A pipe or a device is written to; renaming would put a file in its place.
            file.write_bytes(content)
            return
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name:.100}.")
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DocumentError(str(file), f"cannot be written: {reason}") from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()
