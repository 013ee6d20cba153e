"""JSON files, read more strictly than JSON and written so that their changes read well."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from hypar.errors import DocumentError
from hypar.files import read_text
from hypar.quoting import shown

if TYPE_CHECKING:
    from pathlib import Path

MOST_DEPTH = 64
"""Lists and objects inside each other."""

_HALVES = re.compile(r"[\ud800-\udfff]")


def read_json(file: Path) -> Any:
    """Read a JSON file, more strictly than JSON.

    Raises:
        DocumentError: it cannot be read, is not JSON, is nested too deeply, gives a key twice, or has a number
            that is not finite or too large for one.
    """
    text = read_text(file)
    if not text.strip():
        raise DocumentError(str(file), "the file is empty")

    def refuse(word: str) -> None:
        raise DocumentError(str(file), f"found {shown(word)}", "finite numbers")

    def number(word: str) -> int | float:
        value = float(word)
        if not math.isfinite(value):
            refuse(word)
        return int(word) if word.lstrip("-").isdecimal() else value

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise DocumentError(str(file), f"key {shown(twice)} given twice", "once")
        return found

    try:
        data = json.loads(
            text, parse_constant=refuse, parse_float=number, parse_int=number, object_pairs_hook=once
        )
    except json.JSONDecodeError as error:
        raise DocumentError(f"{file}:{error.lineno}", f"not JSON: {error.msg}") from error
    except RecursionError as error:
        raise _too_deep(file) from error
    _require_plain(file, data)
    return data


def _require_plain(file: Path, data: Any) -> None:
    """Refuse a nesting without end, and half a character, which JSON can write but nobody can print."""
    inside = [data]
    for _ in range(MOST_DEPTH):
        if not inside:
            return
        pairs = [pair for item in inside if isinstance(item, dict) for pair in item.items()]
        lists = [item for item in inside if isinstance(item, list)]
        inside = [*(part for pair in pairs for part in pair), *(item for found in lists for item in found)]
        for text in inside:
            if isinstance(text, str) and not text.isascii() and _HALVES.search(text):
                raise DocumentError(str(file), f"found {shown(text)}", "whole characters")
    raise _too_deep(file)


def _too_deep(file: Path) -> DocumentError:
    return DocumentError(str(file), "nested too deeply", f"{MOST_DEPTH} lists and objects inside each other")


def format_json(data: Any, indent: str = "") -> str:
    """JSON with a line for each innermost list or mapping, so that a file's changes read well.

    Example:
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
