"""Strict reading of text, JSON and CSV files, JSON with readable differences, and atomic writing of files."""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from hypar.errors import DocumentError, shown

MOST_BYTES = 64 * 2**20
"""Largest size of a file in bytes."""


def read_text(file: Path) -> str:
    """Return the text of a file; raises ``DocumentError`` if it is missing, a folder, too large, or not text."""
    with _told(file, "read"), file.open("rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise DocumentError(str(file), "the file is too large", f"at most {MOST_BYTES:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = f"{file}:{content.count(10, 0, error.start) + 1}"
        raise DocumentError(place, f"found byte 0x{content[error.start]:02x}", "UTF-8 text") from error


def require_writable(file: str | Path) -> None:
    """Raise a ``DocumentError`` if a file could not be written, before anything is computed for it."""
    with _told(Path(file), "written"):
        _target(Path(file))


def make_folder(folder: Path) -> None:
    """Create a folder and its parents unless they exist, or raise a DocumentError."""
    with _told(folder, "made"):
        folder.mkdir(parents=True, exist_ok=True)


def write(file: Path, content: str | bytes) -> None:
    """Write a file atomically: a new file beside it is written, then renamed; a link is followed, an old file's mode kept.

    A device or a pipe is written to directly. Half a character of a text is written as ?. Raises ``DocumentError``.
    """
    with _told(file, "written"):
        content = content.encode("utf-8", "replace") if isinstance(content, str) else content
        path, mode = _target(file)
        if mode is not None and not stat.S_ISREG(mode):
            path.write_bytes(content)
        else:
            _replace(path, content, mode)


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
        raise refused(error, str(file), what) from error


def refused(
    error: OSError | ValueError, where: str = "standard output", what: str = "written"
) -> DocumentError:
    """Return the error of a file, or of standard output that is closed or cannot take more."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return DocumentError(where, f"cannot be {what}: {reason}")


def read_json(file: Path) -> Any:
    """Read a JSON file; raises ``DocumentError``, also where it nests too deeply, repeats a key, or has a number not finite."""
    text = read_text(file)
    if not text.strip():
        raise DocumentError(str(file), "the file is empty")
    try:
        return json.loads(text, **_hooks(file))
    except json.JSONDecodeError as error:
        raise DocumentError(f"{file}:{error.lineno}", f"not JSON: {error.msg}") from error
    except RecursionError as error:
        raise DocumentError(str(file), "nested too deeply") from error


def _hooks(file: Path) -> dict[str, Any]:
    def number(word: str, kind: type[float] = float) -> float:
        if not math.isfinite(float(word)):
            raise DocumentError(str(file), f"found {shown(word)}", "finite numbers")
        return kind(word)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise _twice(str(file), "key", (key for key, _ in pairs))
        return found

    whole = partial(number, kind=int)
    return {"parse_constant": number, "parse_float": number, "parse_int": whole, "object_pairs_hook": once}


def _twice(place: str, what: str, words: Iterable[str]) -> DocumentError:
    word = next(word for word, times in Counter(words).items() if times > 1)
    return DocumentError(place, f"{what} {shown(word)} given twice", "once")


def format_json(data: Any, indent: str = "") -> str:
    """Format data as JSON with a line for each innermost list or mapping, so that differences are readable.

    Examples:
        >>> print(format_json({"level": 0, "choices": {"fc1": {"batch": 2}}}))
        {
         "level": 0,
         "choices": {
          "fc1": {"batch": 2}
         }
        }
    """
    items = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    if not any(isinstance(item, dict | list) for item in items):
        return json.dumps(data, ensure_ascii=False, allow_nan=False)
    lines = [format_json(item, f"{indent} ") for item in items]
    if isinstance(data, dict):
        keys = (json.dumps(key, ensure_ascii=False) for key in data)
        lines = [f"{key}: {line}" for key, line in zip(keys, lines, strict=True)]
    start, end = "{}" if isinstance(data, dict) else "[]"
    return f"{start}\n{indent} " + f",\n{indent} ".join(lines) + f"\n{indent}{end}"


def read_csv(file: Path) -> list[tuple[int, dict[str, str]]]:
    """Read a CSV file whose first row names the columns, without empty rows and spaces around cells; raises ``DocumentError``.

    A row is the number of its first line, from 1, and its nonempty cells by column.
    """
    reader, line = csv.reader(io.StringIO(read_text(file), newline=""), strict=True), 1
    found: list[tuple[int, list[str]]] = []
    try:
        for record in reader:
            found.append((line, [cell.strip() for cell in record]))
            line = reader.line_num + 1
    except csv.Error as error:
        raise DocumentError(f"{file}:{line}", f"not CSV: {error}") from error
    (_, head), *rows = [own for own in found if any(own[1])] or [(0, [])]
    if not head:
        raise DocumentError(str(file), "the file is empty")
    if len({*head}) < len(head):
        raise _twice(f"{file}:1", "column", head)
    for line, cells in rows:
        if len(cells) != len(head):
            raise DocumentError(f"{file}:{line}", f"found {len(cells)} cells", f"{len(head)}, one a column")
    each = ((line, zip(head, cells, strict=True)) for line, cells in rows)
    return [(line, {name: cell for name, cell in pairs if cell}) for line, pairs in each]
