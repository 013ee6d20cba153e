"""What documents share: rows of data beside the tables that readers see, and values by what they have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from hypar.document import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Key = TypeVar("Key")


def data(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows that JSON, CSV and data frames have, and readers see in another form."""
    keys = dict.fromkeys(key for row in rows for key in row)
    columns = tuple(Column(key=key, show=False) for key in keys)
    return Table(columns=columns, rows=[dict(row) for row in rows])


def grouped(pairs: Iterable[tuple[Key, Any]]) -> dict[Key, list[Any]]:
    """Return the values of each key, in order."""
    found: dict[Key, list[Any]] = {}
    for key, own in pairs:
        found.setdefault(key, []).append(own)
    return found
