"""How messages quote a value and name a place in a file."""

from __future__ import annotations

import re
import reprlib
from typing import Any

Where = tuple[str | int, ...]
"""A place in a document: keys and indices from the top."""

_WORD = re.compile(r"[\w-]{1,100}")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60


def field_name(where: Where) -> str:
    """A place as people write it; a key that is no word stands in quotes.

    Example:
        >>> field_name(("layers", 3, "kernel")), field_name(("splits", "a b"))
        ('layers[3].kernel', "splits['a b']")
    """
    parts = (
        f".{part}" if isinstance(part, str) and _WORD.fullmatch(part) else f"[{shown(part)}]"
        for part in where
    )
    return "".join(parts).removeprefix(".")


def shown(value: Any) -> str:
    """A value as a message quotes it: as YAML and JSON write it, cut short where it is long.

    Example:
        >>> shown(True), shown(None), shown("9" * 100), shown(["a", 1])
        ('true', 'nothing', "'999999999999999999999999999...9999999999999999999999999999'", "['a', 1]")
    """
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    return _SHORT.repr(value)
