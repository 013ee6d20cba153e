"""Values of options: functions that read them from texts, and check before any work that files can be written."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.errors import OptionError, shown
from hypar.files.text import require_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WHOLE = ":int64"
"""Behind the shape of an input of whole numbers, as tokens are."""

MOST_NUMBERS = 10_000
"""The last number of a range, at most."""


def read_changes(values: Sequence[str]) -> dict[str, Any]:
    """Read ``duplex=half`` as a hardware file would give it."""
    if not values:
        return {}
    from hypar.machine.load import parse_change  # noqa: PLC0415 (only where it is asked for)

    return dict(map(parse_change, values))


def read_axes(values: Sequence[str]) -> dict[str, list[Any]]:
    """Read ``duplex=full,half`` as the values of one axis."""
    found: dict[str, list[Any]] = {}
    for text in values:
        name, equals, listed = text.partition("=")
        read = read_changes([f"{name}=[{listed}]" if equals else text])
        found.setdefault(name, []).extend(read[name])
    return found


def read_energies(values: Sequence[str]) -> dict[str, str]:
    """Read ``buffer=glb.read`` as an energy and its action."""
    found: dict[str, str] = {}
    for text in values:
        name, equals, target = text.partition("=")
        if not equals or name in found:
            problem = f"{name} given twice" if equals else f"found {shown(text)}"
            raise OptionError("map", problem, "NAME=COMPONENT.ACTION, each name once")
        found[name] = target
    return found


def _reader(read: Callable[[str], Any], where: str, allowed: str) -> Callable[[str], Any]:
    """Return a function that reads a text, and refuses what it cannot read."""

    def checked(text: str) -> Any:
        try:
            return read(text)
        except ValueError:
            raise OptionError(where, f"found {shown(text)}", allowed) from None

    return checked


def _numbers(text: str) -> tuple[int, ...]:
    first, dots, last = text.partition("..")
    if dots:
        return tuple(range(int(first), min(int(last), MOST_NUMBERS) + 1))
    return tuple(map(int, text.split(",")))


def _share(text: str) -> float:
    number, percent, rest = text.partition("%")
    return float(number) / (100 if percent and not rest.strip() else 1)


def _sizes(text: str) -> tuple[int, ...]:
    parts = text.removesuffix(WHOLE).split("x")
    if not all(part.isascii() and part.isdigit() and 0 < int(part) < 2**24 for part in parts):
        raise ValueError
    return tuple(map(int, parts))


read_numbers = partial(_reader, _numbers, allowed="numbers as 1,2,4 or 0..6")
read_share = _reader(_share, "tolerance", "a share, as 1e-6 or 1%")
read_sizes = _reader(_sizes, "--input", "the shape of a sample, as 3x224x224 or 784, or 128:int64 for tokens")


def writable(text: str) -> str:
    """Check that a file can be written."""
    require_writable(Path(text))
    return text


def plot(text: str, also: str = "") -> str:
    """Check that a plot can be written to a file, or a table to a file of another ending."""
    if also and text.endswith(also):
        return writable(text)
    from hypar.reports.plots import require_plot  # noqa: PLC0415 (only where it is asked for)

    require_plot(text, also)
    return text


def read_words(text: str) -> tuple[str, ...]:
    """Read ``dp,hypar`` as names."""
    return tuple(text.split(","))
