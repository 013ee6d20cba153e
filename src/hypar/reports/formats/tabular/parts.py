"""Rows of a plan's table, a row for each layer or one for each part of a large network."""

from __future__ import annotations

import math
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_ROWS = 24
"""The largest number of layers that are shown one by one."""


class Row(NamedTuple):
    """One or several layers of equal choices.

    Attributes:
        name: the layer, or the part of the network.
        stage: number of its stage; 0 without stages.
        words: its choice in each column.
        dims: the dim of each of these choices.
        amounts: its costs, summed over its layers.
        devices: number of the devices that work for it.
        layers: number of its layers.
        below: whether it is an exception to the row above it.
    """

    name: str
    stage: int
    words: tuple[str, ...]
    dims: tuple[str | None, ...]
    amounts: tuple[float, ...]
    devices: int
    layers: int = 1
    below: bool = False

    @property
    def alike(self) -> tuple[int, tuple[str, ...], int]:
        """Return all in which the layers of one row are equal."""
        return self.stage, self.words, self.devices

    @property
    def title(self) -> str:
        """Return its name as the table shows it."""
        count = f" x{self.layers}" if self.layers > 1 else ""
        return f"{'  ' * self.below}{self.name}{count}"


def fold(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each part of the network, the rows of other choices than most of the part's below it.

    A part is a run of layers whose names begin alike, as ``layer3.0.conv1`` and ``layer3.1.conv1``. If these are still
    many, neighbours of equal choices become one row.
    """
    parts = groupby(rows, key=lambda row: (row.stage, row.name.partition(".")[0]))
    folded = [row for (_, name), layers in parts for row in _part(name, list(layers))]
    return folded if len(folded) <= MOST_ROWS else _runs(folded)


def _part(name: str, layers: Sequence[Row]) -> list[Row]:
    """Return the row of a part, and the rows of its exceptions; its layers if no two of them are alike."""
    if len(layers) == 1:
        return [*layers]
    ((most, count),) = Counter(layer.alike for layer in layers).most_common(1)
    if count == 1:
        return [*layers]
    others: dict[object, list[Row]] = {}
    for layer in layers:
        if layer.alike != most:
            others.setdefault((layer.alike, layer.name.rpartition(".")[2]), []).append(layer)
    first = _together(name, [layer for layer in layers if layer.alike == most])
    below = [_together(_pattern([row.name for row in own]), own) for own in others.values()]
    return [first, *(row._replace(name=row.name.removeprefix(f"{name}."), below=True) for row in below)]


def _runs(rows: Sequence[Row]) -> list[Row]:
    """Merge neighbours of equal choices; rows with exceptions stay by themselves."""
    with_exceptions = {at - 1 for at, row in enumerate(rows) if row.below}
    found: list[Row] = []
    for _, run in groupby(
        enumerate(rows),
        key=lambda pair: (pair[0] if pair[1].below or pair[0] in with_exceptions else -1, pair[1].alike),
    ):
        own = [row for _, row in run]
        name = own[0].name if len(own) == 1 else f"{own[0].name} to {own[-1].name}"
        found.append(own[0] if len(own) == 1 else _together(name, own))
    return found


def _together(name: str, rows: Sequence[Row]) -> Row:
    """Return one row for several of equal choices."""
    amounts = tuple(math.fsum(own) for own in zip(*(row.amounts for row in rows), strict=True))
    return rows[0]._replace(name=name, amounts=amounts, layers=sum(row.layers for row in rows))


def _pattern(names: Sequence[str]) -> str:
    """Return one name for several layers: the numbers of a run as ``0-3``, other parts that differ as ``*``."""
    if len(names) == 1:
        return names[0]
    split = [name.split(".") for name in names]
    if len({*map(len, split)}) > 1:
        return f"{split[0][0]}.*.{split[0][-1]}"
    return ".".join(_merged(dict.fromkeys(parts)) for parts in zip(*split, strict=True))


def _merged(parts: Iterable[str]) -> str:
    """Return one text for the different parts of names at one place."""
    texts = list(parts)
    if len(texts) == 1:
        return texts[0]
    if all(text.isdecimal() for text in texts):
        numbers = sorted(map(int, texts))
        if numbers == list(range(numbers[0], numbers[-1] + 1)):
            return f"{numbers[0]}-{numbers[-1]}"
    return "*"
