"""The collectives of F and E between the choices of two layers."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hypar.sharding.rates import COLLECTIVES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.sharding.numbering import Layout

Codes = NDArray[np.int64]
Names = tuple[tuple[str | None, str | None], ...]
"""The op dims of producer and consumer for each dim of a tensor; None where one has none."""
CODE = {name: code for code, name in enumerate(COLLECTIVES)}


@lru_cache(maxsize=64)
def forth(made: Layout, read: Layout, names: Names) -> Codes:
    """Return the collectives of F: gathered if the consumer needs all of it, a halo between equal grids."""
    return _codes(undivided(read, [theirs for _, theirs in names])[None], _same_grid(made, read, names))


@lru_cache(maxsize=64)
def back(made: Layout, read: Layout, names: Names, terms: bytes) -> Codes:
    """Return the collectives of E: reduced if several devices have terms of an element."""
    codes = _codes(undivided(made, [own for own, _ in names])[:, None], _same_grid(made, read, names))
    return np.where(np.frombuffer(terms, bool)[None], CODE["reduce_scatter"], codes)


def _codes(gathers: NDArray[np.bool_], equal: NDArray[np.bool_]) -> Codes:
    shards = np.where(equal, CODE["neighbours"], CODE["all_to_all"])
    return np.where(gathers, CODE["all_gather"], shards)


def undivided(layout: Layout, dims: Sequence[str | None]) -> NDArray[np.bool_]:
    """Return whether every device has the whole tensor, for each choice."""
    found = np.ones(len(layout.working), bool)
    for dim in dims:
        found &= layout.degree(dim) == 1
    return found


@lru_cache(maxsize=64)
def _same_grid(made: Layout, read: Layout, names: Names) -> NDArray[np.bool_]:
    """Return whether both choices of a pair divide the tensor into the same grid."""
    found: NDArray[np.bool_] = made.working[:, None] == read.working
    for own, theirs in names:
        found &= made.degree(own)[:, None] == read.degree(theirs)
    return found
