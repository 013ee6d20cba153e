"""Parts of a network with many layers, and its equal blocks."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MOST_ROWS = 24
"""The largest number of layers that are shown one by one."""


class Row(NamedTuple):
    """Layers that share a row.

    Attributes:
        label: their name, with a range where blocks are numbered, as ``layer3.rest.0-4.conv1``.
        layers: their names.
    """

    label: str
    layers: tuple[str, ...]


class _Block(NamedTuple):
    """A block of layers: the name in front of its number, the number, and the rest of each layer's name."""

    stem: str
    number: int | None
    layers: tuple[str, ...]
    rests: tuple[str, ...]


def parts(layers: Sequence[str]) -> list[Row]:
    """Return the parts of a network: neighbours whose names begin alike, up to the first point.

    Example:
        >>> [(part.label, len(part.layers)) for part in parts(["conv1", "layer1.0.conv1", "layer1.0.conv2"])]
        [('conv1', 1), ('layer1', 2)]
    """
    found = []
    for first, own in groupby(layers, lambda layer: layer.partition(".")[0]):
        named = tuple(own)
        found.append(Row(first if len(named) > 1 else named[0], named))
    return found


def merged(layers: Sequence[str], key: Callable[[str], object]) -> list[Row]:
    """Return the rows of a part, with equal blocks once.

    Args:
        layers: names of its layers.
        key: what blocks must have in common, layer by layer.

    Example:
        >>> merged(["a.0.x", "a.1.x", "a.2.x"], lambda layer: layer == "a.2.x")
        [Row(label='a.0-1.x', layers=('a.0.x', 'a.1.x')), Row(label='a.2.x', layers=('a.2.x',))]
    """
    runs: list[list[_Block]] = []
    for block in _blocks(layers):
        if runs and _follows(runs[-1][-1], block, key):
            runs[-1].append(block)
        else:
            runs.append([block])
    return [row for run in runs for row in _rows(run)]


def block_of(layer: str) -> str:
    """Return the block that a layer belongs to: its name up to the first number between points."""
    words = layer.split(".")
    numbered = next((at for at, word in enumerate(words[:-1]) if word.isdecimal()), None)
    return ".".join(words[: 1 if numbered is None else numbered + 1])


def _blocks(layers: Sequence[str]) -> Iterator[_Block]:
    for block, own in groupby(layers, block_of):
        named = tuple(own)
        stem, _, number = block.rpartition(".")
        rests = tuple(name[len(block) :] for name in named)
        yield (
            _Block(stem, int(number), named, rests)
            if stem and number.isdecimal()
            else _Block(block, None, named, rests)
        )


def _follows(one: _Block, other: _Block, key: Callable[[str], object]) -> bool:
    """Return whether a block is equal to the one before it and has the next number."""
    return (
        one.number is not None
        and other.number == one.number + 1
        and (one.stem, one.rests) == (other.stem, other.rests)
        and [*map(key, one.layers)] == [*map(key, other.layers)]
    )


def _rows(run: Sequence[_Block]) -> Iterator[Row]:
    if len(run) == 1:
        yield from (Row(layer, (layer,)) for layer in run[0].layers)
        return
    for at, rest in enumerate(run[0].rests):
        label = f"{run[0].stem}.{run[0].number}-{run[-1].number}{rest}"
        yield Row(label, tuple(block.layers[at] for block in run))
