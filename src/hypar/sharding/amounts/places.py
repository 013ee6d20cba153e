"""The tuples of two layers whose pairs are counted, as indices into arrays of one level."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.solve.edge import Costs, Indices


class Column(NamedTuple):
    """Some tuples of a layer down to one level.

    Attributes:
        digit: the option of each at the level.
        prefix: the number of each among all tuples of the levels above and this one.
        parent: the place of each one's tuple above among those that the level above has.
    """

    digit: Indices
    prefix: Indices
    parent: Indices


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
        found.append(Column(digit, prefix, parent.reshape(-1)))
        prefix = before
    return found[::-1]


def descended(above: Costs, places: Places) -> Costs:
    """Return an array over pairs of tuples above a level for the pairs down to it; one entry where it is the same."""
    if above.shape[0] > 1:
        above = above.take(places.made.parent, axis=0)
    return above.take(places.read.parent, axis=1) if above.shape[1] > 1 else above


def spread(factor: Costs, places: Places) -> Costs:
    """Return a factor ``[made, above, read]`` for each pair of tuples, ``[made, read]``; one entry where it is the same."""
    made, above, read = factor.shape
    flat = factor.reshape(made, above * read)
    if above * read > 1:
        flat = flat.take(places.read.digit if above == 1 else places.read.prefix, axis=1)
    return flat.take(places.made.digit, axis=0) if made > 1 else flat
