"""The collectives: which of them moves a tensor between two layers."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypar.sharding.placement import Layout

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "neighbours")
"""The collectives that change the placement of a tensor; ``neighbours`` exchanges halos."""

CODE = {name: code for code, name in enumerate(COLLECTIVES)}
Codes = NDArray[np.int64]

SUMMED = {"all_reduce": 1 / 2, "reduce_scatter": 1.0}
"""Fraction of the received elements that are terms of a sum; an all-reduce then gathers as many as it added up."""


def undivided(layout: Layout, dims: Iterable[str | None]) -> NDArray[np.bool_]:
    """Return whether every device has the whole tensor of some dims, for each choice."""
    return np.asarray(np.all([layout.degree(dim) == 1 for dim in dims], axis=0))


@lru_cache(maxsize=64)
def manners_of(
    made: Layout, read: Layout, names: tuple[tuple[str | None, str | None], ...]
) -> tuple[Codes, Codes]:
    """Return the collectives of F and of E where no sums are taken, for each pair of choices of producer and consumer.

    A tensor is gathered if the layer that receives it needs all of it; a halo moves between equal grids.

    Args:
        made: the choices of the producer.
        read: the choices of the consumer.
        names: the op dims of both for each dim of the tensor; None where one has none.
    """
    equal = made.working[:, None] == read.working
    for own, theirs in names:
        equal &= made.degree(own)[:, None] == read.degree(theirs)
    shards = np.where(equal, CODE["neighbours"], CODE["all_to_all"])
    makes, reads = zip(*names, strict=True)
    forward = np.where(undivided(read, reads), CODE["all_gather"], shards)
    return forward, np.where(undivided(made, makes)[:, None], CODE["all_gather"], shards)
