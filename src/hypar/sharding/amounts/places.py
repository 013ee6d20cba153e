"""The tuples of two layers whose pairs are counted, as indices into arrays of one level."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.sharding.amounts.between import Factors
    from hypar.solve.edge import Costs, Indices


class Column(NamedTuple):
    """Some tuples of a layer, seen from one level.

    Attributes:
        digit: the option of each at the level.
        above: the tuple of each at the levels above.
        prefix: the tuple of each at the levels above and at this one.
    """

    digit: Indices
    above: Indices
    prefix: Indices


class Places(NamedTuple):
    """The tuples of producer and consumer; None for the options of a single level."""

    made: Column
    read: Column


def columns(widths: Sequence[int], kept: Indices | None = None) -> list[Column]:
    """Return some tuples seen from each level.

    Args:
        widths: the number of options at each level, outermost first.
        kept: the tuples; None for all of them.
    """
    prefix = np.arange(int(np.prod(widths))) if kept is None else kept
    found = []
    for width in reversed(widths):
        above, digit = np.divmod(prefix, width)
        found.append(Column(digit, above, prefix))
        prefix = above
    return found[::-1]


def spread(factor: Costs, places: Places | None) -> Costs:
    """Return a factor ``[made, above, read]`` for each pair of tuples, ``[made, read]``; one entry where it is the same."""
    made, above, read = factor.shape
    flat = factor.reshape(made, above * read)
    if places is None:
        return flat
    if above * read > 1:
        flat = flat.take(places.read.digit if above == 1 else places.read.prefix, axis=1)
    return flat.take(places.made.digit, axis=0) if made > 1 else flat


def spread_all(factors: Factors, names: tuple[str, ...], places: Places | None) -> Factors:
    """Return some factors for each pair of tuples; those that are one object stay one."""
    done: dict[int, Costs] = {}
    for name in names:
        factor = getattr(factors, name)
        if id(factor) not in done:
            done[id(factor)] = spread(factor, places)
    return factors._replace(**{name: done[id(getattr(factors, name))] for name in names})
