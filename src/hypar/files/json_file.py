"""Strict reading of JSON files, and formatting with readable differences."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from hypar.errors import DocumentError, shown
from hypar.files.text import read_text

if TYPE_CHECKING:
    from pathlib import Path

MOST_DEPTH = 64
"""Largest nesting of lists and objects."""

_HALVES = r"[\ud800-\udfff]"
_HALF_ESCAPED = r"\\u[dD][89a-fA-F]"
_SHORT_NUMBER = 300
"""Digits of a number that is certainly finite."""


def read_json(file: Path) -> Any:
    """Read a JSON file, more strictly than the JSON standard.

    Raises:
        DocumentError: the file cannot be read, is not JSON, is nested too deeply, repeats a key, or has a number that is
            not finite or too large for a float.
    """
    text = read_text(file)
    if not text.strip():
        raise DocumentError(str(file), "the file is empty")

    try:
        data = json.loads(text, **_hooks(file))
    except json.JSONDecodeError as error:
        raise DocumentError(f"{file}:{error.lineno}", f"not JSON: {error.msg}") from error
    except RecursionError as error:
        raise _too_deep(file) from error
    _require_shallow(file, data)
    if re.search(_HALF_ESCAPED, text):
        _require_plain(file, data)
    return data


def _hooks(file: Path) -> dict[str, Any]:
    """Return the hooks that Python's reader calls for each number and object."""

    def refuse(word: str) -> None:
        raise DocumentError(str(file), f"found {shown(word)}", "finite numbers")

    def number(word: str) -> float:
        value = float(word)
        if not math.isfinite(value):
            refuse(word)
        return value

    def whole(word: str) -> int:
        if len(word) > _SHORT_NUMBER:
            number(word)
        return int(word)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    raise DocumentError(str(file), f"key {shown(key)} given twice", "once")
                seen.add(key)
        return found

    return {"parse_constant": refuse, "parse_float": number, "parse_int": whole, "object_pairs_hook": once}


def _require_shallow(file: Path, data: Any) -> None:
    """Raise if lists and objects are nested too deeply."""
    inside = [data] if isinstance(data, dict | list) else []
    for _ in range(MOST_DEPTH):
        containers = [item.values() if isinstance(item, dict) else item for item in inside]
        inside = [item for found in containers for item in found if isinstance(item, dict | list)]
        if not inside:
            return
    raise _too_deep(file)


def _require_plain(file: Path, data: Any) -> None:
    """Raise if a text contains an unpaired surrogate, which JSON can express but nobody can print."""
    if isinstance(data, dict):
        for key, value in data.items():
            _require_plain(file, key)
            _require_plain(file, value)
    elif isinstance(data, list):
        for value in data:
            _require_plain(file, value)
    elif isinstance(data, str) and not data.isascii() and re.search(_HALVES, data):
        raise DocumentError(str(file), f"found {shown(data)}", "whole characters")


def _too_deep(file: Path) -> DocumentError:
    return DocumentError(str(file), "nested too deeply", f"{MOST_DEPTH} lists and objects inside each other")


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
    deeper = f"{indent} "
    if isinstance(data, dict):
        lines = [
            f"{json.dumps(key, ensure_ascii=False)}: {format_json(value, deeper)}"
            for key, value in data.items()
        ]
    else:
        lines = [format_json(value, deeper) for value in data]
    start, end = "{}" if isinstance(data, dict) else "[]"
    return f"{start}\n{deeper}" + f",\n{deeper}".join(lines) + f"\n{indent}{end}"
