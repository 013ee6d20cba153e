"""The errors that hypar raises, a line for each fault: the place, the value found, the values allowed, a hint."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterable, Sequence
from typing import Any

Where = tuple[str | int, ...]
"""A place in a document: keys and indices from the top."""

LONGEST_WORD, MOST_NAMES = 100, 40
_WORD = re.compile(r"[\w-]{1,100}")
_CONTROLS = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)], "?")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60


class HyparError(Exception):
    """The base class: ``exit_status`` of the command line is 3 for wrong input, 1 for a negative answer."""

    exit_status = 3


class InputError(HyparError):
    """Input that cannot be used: the place, as ``file:line: field``, and further faults of the same file as ``others``."""

    others: tuple[InputError, ...] = ()

    def __init__(self, where: str, found: str, allowed: str = "", hint: str = "") -> None:
        self.where, self.found, self.allowed, self.hint = where, found, allowed, hint
        parts = (f"{where}: {found}" if where else found, f"allowed: {allowed}" if allowed else "", hint)
        super().__init__(" ".join("; ".join(filter(None, parts)).split()))

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *map(str, self.others)])


class DocumentError(InputError):
    """A file that cannot be read or written, or is not valid YAML or JSON."""


class ModelError(InputError):
    """An invalid model file or network."""


class HardwareError(InputError):
    """An invalid hardware file or machine, or a machine too small for the request."""


class MemoryLimitError(HardwareError):
    """No requested stages, or no shares of heterogeneous device groups, that fit the devices' memory."""

    exit_status = 1


class PlanError(InputError):
    """A stored plan that is damaged, of another schema, or for another model."""


class ProfileError(InputError):
    """A table of measured times that is damaged, incomplete, or for another model or array."""


class OptionError(InputError):
    """An argument out of range, or unsuitable for the model."""


class UnknownNameError(InputError):
    """A ``name`` of no file or plug-in of its ``kind``, such as ``solver``, beside the ``known`` ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str], where: str = "") -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        listed = few(self.known, MOST_NAMES)
        super().__init__(where, f"no {kind} {_SHORT.repr(name)}", listed, suggestion(name, self.known))


class ProblemError(HyparError):
    """Arrays that do not form a cost graph, or tasks that cannot run."""


class TableLimitError(HyparError):
    """An exact search whose largest table would have more ``entries`` than the ``limit``."""

    def __init__(self, message: str, entries: int, limit: int) -> None:
        self.entries, self.limit = entries, limit
        super().__init__(message)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest known word, or up to three if several begin with it, or an empty text."""
    words = {word.casefold(): word for word in map(str, known) if len(word) <= LONGEST_WORD >= len(name)}
    typed = name.casefold()
    several = sum(word.startswith(typed) for word in words) > 1
    found = difflib.get_close_matches(typed, words, n=3 if several else 1, cutoff=0.5)
    near = sorted(repr(words[word]) for word in found)
    listed = " or ".join(filter(None, [", ".join(near[:-1]), *near[-1:]]))
    return f"did you mean {listed}?" if near else ""


def few(names: Sequence[str], most: int = 3) -> str:
    """List names, as ``a, b, c and 2 more``."""
    return ", ".join(names[:most]) + f" and {len(names) - most} more" * (len(names) > most)


def reason(error: BaseException) -> str:
    """Return the kind of an exception and the first line of its message that says something, 300 characters at most."""
    lines = (line.strip() for line in str(error).splitlines())
    text = next((line[:300] for line in lines if any(map(str.isalnum, line))), "")
    return ": ".join(filter(None, (type(error).__name__, text)))


def printable(text: str) -> str:
    """Replace the control characters of a text, which a terminal obeys, but for line breaks and tabs, by ``?``."""
    return text.translate(_CONTROLS)


def field_name(where: Where) -> str:
    """Format a place for people, as ``layers[3].kernel``; unusual keys are quoted."""
    keys = (
        f".{key}" if isinstance(key, str) and _WORD.fullmatch(key) else f"[{shown(key)}]" for key in where
    )
    return "".join(keys).removeprefix(".")


def shown(value: Any) -> str:
    """Format a value for a message as YAML and JSON write it, shortened if long."""
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    return _SHORT.repr(value)
