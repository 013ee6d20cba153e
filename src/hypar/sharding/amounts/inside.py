"""The partial sums that are added up inside a layer, level by level."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.amounts.flows import fraction_read
from hypar.sharding.amounts.rows import border_of, rest_of, rows_read, windowed
from hypar.sharding.grids.layouts import layout
from hypar.sharding.levels import QUANTITIES, TENSORS, WORKING
from hypar.sharding.transfers import Border, halo

if TYPE_CHECKING:
    from hypar.network.ops.base import Einsum, Roles
    from hypar.sharding.amounts.flows import Sums
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs


def added(einsum: Einsum, options: Options, sizes: LocalSizes, level: Level, sums: Sums) -> Costs:
    """Return the elements received to add up the partial sums of a layer.

    Terms go to an owner of each element, and its sum to all that had terms of it; rows beside a border have one owner.

    Returns:
        Elements that all devices receive, ``[TENSORS, tuples above, options]``.
    """
    copies = level.groups * sizes.of(WORKING) * sizes.fractions[: len(TENSORS)]
    at_level = computing(einsum.roles, options, level.ways)
    elements = elements_of(einsum, sums)
    total: Costs = (elements * copies)[:, :, None] * at_level[:, None, :, 1]
    dims = windowed(einsum) if sums.input else ()
    if any(choice.degree(dim) > 1 for dim in dims for choice in options) or any(
        sizes.of(dim).min() < 1 for dim in dims
    ):
        total[0] += elements[0] * _borders(einsum, dims, options, sizes, (copies[0], at_level[0, :, 0]))
    return total


_IMAGE = slice(QUANTITIES.index("height"), QUANTITIES.index("width") + 1)
"""The rows of ``LocalSizes.fractions`` of an image's dims."""


@lru_cache(maxsize=4096)
def computing(roles: Roles, options: Options, ways: int) -> Costs:
    """Return the devices that compute each element of each of ``TENSORS``, and the copies of it that are received.

    Returns:
        ``[TENSORS, options, 2]``; no copies are received of the results of an op without a weight, which have no terms.
    """
    own = layout(options, ways)
    found = np.zeros((len(TENSORS), len(options), 2))
    for row, tensor in enumerate(TENSORS):
        found[row, :, 0] = own.working
        for dim in roles.dims(tensor):
            found[row, :, 0] /= own.degree(dim)
    if roles.weight:
        found[:, :, 1] = 2.0 * (found[:, :, 0] - 1.0)
    return found


@lru_cache(maxsize=4096)
def elements_of(einsum: Einsum, sums: Sums) -> Costs:
    """Return the elements of each of ``TENSORS``, none of those whose sums are not added up inside the layer."""
    read = einsum.input_elements * fraction_read(einsum) if sums.input else 0.0
    made = einsum.elements("output") if sums.output else 0.0
    return np.array([[read], [einsum.elements("weight")], [made]], dtype=np.float64)


def _borders(
    einsum: Einsum, dims: tuple[str, ...], options: Options, sizes: LocalSizes, copies: tuple[Costs, Costs]
) -> Costs:
    """Return the multiple of E_in that rows beside borders add, ``[tuples above, options]``."""
    above, beyond = np.ones(1), np.ones((sizes.fractions.shape[1], len(options)))
    for dim in dims:
        above = above * rows_read(border_of(einsum, dim), sizes.of(dim))
        rest = rest_of(einsum, dim, sizes)
        for column, choice in enumerate(options):
            if choice.degree(dim) > 1:
                border = Border(dim, border_of(einsum, dim), choice.degree(dim), 1)
                beyond[:, column] *= 1.0 + halo(border, rest)
    before, here = copies
    return before[:, None] * (above[:, None] * (here * beyond - 1.0) - (here - 1.0))
