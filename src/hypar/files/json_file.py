"""Strict reading of JSON files, and formatting with readable differences."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from hypar.errors import DocumentError, shown
from hypar.files.text import read_text

if TYPE_CHECKING:
    from pathlib import Path


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
        return json.loads(text, **_hooks(file))
    except json.JSONDecodeError as error:
        raise DocumentError(f"{file}:{error.lineno}", f"not JSON: {error.msg}") from error
    except RecursionError as error:
        raise DocumentError(str(file), "nested too deeply") from error


def _hooks(file: Path) -> dict[str, Any]:
    """Return the hooks that Python's reader calls for each number and object."""

    def number(word: str) -> float:
        value = float(word)
        if not math.isfinite(value):
            raise DocumentError(str(file), f"found {shown(word)}", "finite numbers")
        return value

    def whole(word: str) -> int:
        number(word)
        return int(word)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
            raise DocumentError(str(file), f"key {shown(twice)} given twice", "once")
        return found

    return {"parse_constant": number, "parse_float": number, "parse_int": whole, "object_pairs_hook": once}


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
        lines = [
            f"{json.dumps(key, ensure_ascii=False)}: {line}" for key, line in zip(data, lines, strict=True)
        ]
    start, end = "{}" if isinstance(data, dict) else "[]"
    return f"{start}\n{indent} " + f",\n{indent} ".join(lines) + f"\n{indent}{end}"
