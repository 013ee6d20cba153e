"""An option of a command line: the one form in which requests and commands state theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

NETWORK, ARRAY, SEARCH, MACHINE = "Network", "Array", "Search", "Machine"
STAGES, OUTPUT, OTHER = "Stages and chunks", "Output", "Other"

HEADINGS = (NETWORK, ARRAY, SEARCH, MACHINE, STAGES, OUTPUT, OTHER)
"""The headings under which options are listed, in order."""


class Parameter(NamedTuple):
    """An option as a command line gives it.

    Attributes:
        flags: its flags, and behind them the argument that it gives if that has another name.
        help: what it does, in a line; ``{names}`` stands for the names of its values.
        read: ``bool`` for a flag without a value, ``int``, ``float``, or a function that reads the text, or only checks it; if
            the option may be repeated, the function reads all texts into a mapping.
        allowed: what is allowed where that function raises ``ValueError``.
        names: function that returns the names of its values, called where they are needed.
        closed: whether no other values are allowed.
        several: whether it may be repeated; the value is then a tuple.
        between: separator of the items of a value.
        ending: ending of the file that a value may be; empty if it is none.
        forms: function that returns what a help page lists in place of many names.
        listed: whether a value is a list, separated by commas.
        kind: kind of data file, as ``models``, whose bare names are completed.
        alone: its value if the flag is given without one.
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
