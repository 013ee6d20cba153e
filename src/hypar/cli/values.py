"""Values of options: functions that read them from texts, and check before any work that files can be written."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.errors import OptionError, shown
from hypar.files.text import require_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_NUMBERS = 10_000
"""The last number of a range, at most."""


def read_changes(values: Sequence[str]) -> dict[str, Any]:
    """Read ``duplex=half`` as a hardware file would give it."""
    if not values:
        return {}
    from hypar.machine.load import parse_change  # noqa: PLC0415 (only where it is asked for)

    return dict(map(parse_change, values))


def read_energies(values: Sequence[str]) -> dict[str, str]:
    """Read ``buffer=glb.read`` as an energy and its action."""
    from hypar.machine.accelergy import read_mapping  # noqa: PLC0415 (only where it is asked for)

    return read_mapping(values) if values else {}


def read_axes(values: Sequence[str]) -> dict[str, list[Any]]:
    """Read ``duplex=full,half`` as the values of one axis."""
    found: dict[str, list[Any]] = {}
    for text in values:
        name, equals, listed = text.partition("=")
        read = read_changes([f"{name}=[{listed}]" if equals else text])
        found.setdefault(name, []).extend(read[name])
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


read_numbers = partial(_reader, _numbers, allowed="numbers as 1,2,4 or 0..6")
read_share = _reader(_share, "tolerance", "a share, as 1e-6 or 1%")


def require_plot(text: str, also: str = "") -> None:
    """Check that a plot can be written to a file, or a table to a file of another ending."""
    if also and text.endswith(also):
        require_writable(Path(text))
        return
    from hypar.reports import plots  # noqa: PLC0415 (only where it is asked for)

    plots.require_plot(text, also)


def read_words(text: str) -> tuple[str, ...]:
    """Read ``dp,hypar`` as names."""
    return tuple(text.split(","))
