"""The tuples of two layers whose pairs are counted, as indices into arrays of one level."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.sharding.amounts.between import Factors
    from hypar.solve.edge import Costs, Indices


class Column(NamedTuple):
    """Some tuples of a layer down to one level.

    Attributes:
        digit: the option of each at the level.
        prefix: the number of each among all tuples of the levels above and this one.
        parent: the place of each one's tuple above among those that the level above has.
        width: the number of options at the level.
    """

    digit: Indices
    prefix: Indices
    parent: Indices
    width: int

    @property
    def whole(self) -> bool:
        """Whether every tuple above has every option, in order."""
        return len(self.prefix) == (int(self.parent[-1]) + 1) * self.width


class Places(NamedTuple):
    """The tuples of producer and consumer; None for the options of a single level."""

    made: Column
    read: Column


def columns(widths: Sequence[int], kept: Indices | None = None) -> list[Column]:
    """Return some tuples down to each level.

    Args:
        widths: the number of options at each level, outermost first.
        kept: the tuples of all levels, ascending; None for all of them.
    """
    prefix = np.arange(int(np.prod(widths))) if kept is None else kept
    found = []
    for width in reversed(widths):
        above, digit = np.divmod(prefix, width)
        before, parent = np.unique(above, return_inverse=True)
        found.append(Column(digit, prefix, parent.reshape(-1), width))
        prefix = before
    return found[::-1]


def descended(above: Costs, places: Places) -> Costs:
    """Return an array over pairs of tuples above a level for the pairs down to it; one entry where it is the same."""
    if above.shape[0] > 1:
        above = above.take(places.made.parent, axis=0)
    return above.take(places.read.parent, axis=1) if above.shape[1] > 1 else above


def grown(above: Costs, factor: Costs, places: Places) -> Costs:
    """Return a product above a level times a factor of it, for each pair of tuples.

    Args:
        above: ``[tuples of the producer, tuples of the consumer]`` above the level.
        factor: ``[made, above, read]``.
        places: the tuples down to the level.
    """
    if not (places.made.whole and places.read.whole):
        return descended(above, places) * spread(factor, places)
    made, before, read = factor.shape
    shape = []
    for size, own, column in zip(above.shape, (made, before * read), places, strict=True):
        same = size == own == 1
        shape += [1, 1] if same else [len(column.prefix) // column.width, column.width]
    total = np.empty(shape)
    np.multiply(above[:, None, :, None], factor[None], out=total)
    return total.reshape(shape[0] * shape[1], -1)


def spread(factor: Costs, places: Places) -> Costs:
    """Return a factor ``[made, above, read]`` for each pair of tuples, ``[made, read]``; one entry where it is the same."""
    made, above, read = factor.shape
    flat = factor.reshape(made, above * read)
    if above * read > 1:
        flat = flat.take(places.read.digit if above == 1 else places.read.prefix, axis=1)
    return flat.take(places.made.digit, axis=0) if made > 1 else flat


def spread_all(factors: Factors, names: tuple[str, ...], places: Places) -> Factors:
    """Return some factors for each pair of tuples; those that are one object stay one."""
    done: dict[int, Costs] = {}
    for name in names:
        factor = getattr(factors, name)
        if id(factor) not in done:
            done[id(factor)] = spread(factor, places)
    return factors._replace(**{name: done[id(getattr(factors, name))] for name in names})
