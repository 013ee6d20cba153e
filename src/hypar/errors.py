"""Every error that hypar raises on purpose.

::

    HyparError
    ├── InputError            something a person wrote cannot be used
    │   ├── DocumentError     a file that cannot be read, or is not YAML or JSON
    │   ├── ModelError        a model file, or the network that it describes
    │   ├── HardwareError     a hardware file, or the machine that it describes
    │   │   └── MemoryLimitError  no stages, or no shares, that fit a device's memory
    │   ├── PlanError         a stored plan
    │   ├── ProfileError      a table of measured times
    │   ├── OptionError       an argument: levels, batch, a pin, a space
    │   └── UnknownNameError  a name that no file or plug-in has
    ├── ProblemError          a cost graph or tasks that are not such
    └── TableLimitError       an exact search whose tables would not fit

A message is one line: where, what was found, what is allowed, what to try.
"""

from __future__ import annotations

import difflib
import re
import reprlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


_WORD = re.compile(r"[\w-]{1,100}")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60

LONGEST_WORD = 100
"""Characters of a word that is compared with others, or quoted whole."""

_QUOTED = reprlib.Repr()
_QUOTED.maxstring = LONGEST_WORD


class HyparError(Exception):
    """The root: catching it catches every deliberate error.

    Attributes:
        exit_status: what the command line ends with: 3, the input is wrong, or 1, the answer is no.
    """

    exit_status = 3


class InputError(HyparError):
    """Something a person wrote cannot be used.

    Attributes:
        where: the place, as ``file:line: field`` or an option.
        found: what stands there.
        allowed: what may stand there; empty where the finding says it all.
        hint: what to try; may be empty.
    """

    def __init__(self, where: str, found: str, allowed: str = "", hint: str = "") -> None:
        """Compose the one-line message from its parts."""
        self.where, self.found, self.allowed, self.hint = where, found, allowed, hint
        line = f"{where}: {found}" if where else found
        line += f"; allowed: {allowed}" if allowed else ""
        line += f"; {hint}" if hint else ""
        super().__init__(" ".join(line.split()))


class DocumentError(InputError):
    """A file that cannot be read or written, or is not the YAML or JSON it should be."""


class ModelError(InputError):
    """A model file, or the network that it describes, is wrong."""


class HardwareError(InputError):
    """A hardware file, or the machine that it describes, is wrong, or too small for what is asked."""


class MemoryLimitError(HardwareError):
    """No stages that were asked for, or no shares of unlike groups, fit the memory of a machine's devices."""

    exit_status = 1


class PlanError(InputError):
    """A stored plan is damaged, of another schema, or for another model."""


class ProfileError(InputError):
    """A table of measured times is damaged, for another model or array, or lacks what is asked."""


class OptionError(InputError):
    """An argument is out of its range or does not fit the model."""


class UnknownNameError(InputError):
    """A name that nothing has.

    Attributes:
        kind: what was looked for, as ``model`` or ``solver``.
        name: the name asked for.
        known: the names there are.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], where: str = "") -> None:
        """Suggest the nearest known name."""
        self.kind, self.name, self.known = kind, name, tuple(known)
        super().__init__(
            where, f"no {kind} {_QUOTED.repr(name)}", _listing(self.known), suggestion(name, self.known)
        )


class ProblemError(HyparError):
    """The arrays handed to a solver do not form a cost graph, or the tasks handed to the engine cannot run."""


class TableLimitError(HyparError):
    """An exact search would need larger tables than allowed.

    Attributes:
        entries: how many entries the largest table would have.
        limit: how many are allowed.
    """

    def __init__(self, message: str, entries: int, limit: int) -> None:
        """Keep the two sizes beside the message."""
        self.entries, self.limit = entries, limit
        super().__init__(message)


def suggestion(name: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known word, or nothing.

    Example:
        >>> suggestion("conv", ["conv1", "pool"])
        "did you mean 'conv1'?"
    """
    if len(name) > LONGEST_WORD:
        return ""
    words = [word for word in map(str, known) if len(word) <= LONGEST_WORD]
    near = difflib.get_close_matches(name, words, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else ""


def _listing(words: tuple[str, ...], most: int = 40) -> str:
    """Join words, cutting a long list short."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


Where = tuple[str | int, ...]
"""A place in a document: keys and indices from the top."""


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
