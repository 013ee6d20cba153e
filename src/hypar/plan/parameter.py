"""An option of a command line: the one form in which requests and commands state theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

NETWORK, ARRAY, SEARCH, MACHINE = "Network", "Array", "Search", "Machine"
STAGES, OUTPUT, OTHER = "Stages and chunks", "Output", "Other"

HEADINGS = (NETWORK, ARRAY, SEARCH, MACHINE, STAGES, OUTPUT, OTHER)
"""The headings under which options are listed, in order."""


class Parameter(NamedTuple):
    """An option as a command line gives it: its flags, and behind them the argument that it gives if that has another name.

    ``help`` says what it does in a line, in which ``{names}`` stands for the names of its values, or for ``forms`` in place of
    many. Both are functions, called where they are needed; no other values are allowed if it is ``closed``. ``read`` is ``bool``
    for a flag without a value, ``int``, ``float``, or a function that reads the text or only checks it, and raises
    ``ValueError`` for what is not ``allowed``. If it may be repeated, for ``several``, the function reads all texts into a mapping.
    A ``listed`` value is separated by commas, the items of any by ``between``; a value may be a file with an ``ending``, or the
    bare name of a ``kind`` of data file, as ``models``. Its value is ``alone`` if the flag is given without one.
    """

    flags: str
    heading: str
    help: str
    metavar: str | None = None
    read: Callable[[Any], Any] = str
    names: Callable[[], Iterable[str]] = tuple
    closed: bool = False
    several: bool = False
    between: str = ","
    ending: str = ""
    forms: Callable[[], Iterable[str]] | None = None
    listed: bool = False
    allowed: str = ""
    kind: str = ""
    default: Any = None
    required: bool = False
    alone: str | None = None

    def words(self, value: Any) -> Iterator[str]:
        """Yield the words of a command line that give a value; what is read from a file is given by its name."""
        for one in value if self.several else (value,):
            yield self.flags.split()[0]
            if hasattr(one, "name"):
                yield one.name if one.name in self.names() or "." in one.name else f"{one.name}{self.ending}"
            elif self.read is not bool:
                yield self.between.join(map(str, one)) if isinstance(one, list | tuple) else str(one)
