"""The partial sums that are added up inside a layer, level by level."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.amounts.rows import beyond, fraction_read, rows_read, windowed
from hypar.sharding.dims import SPATIAL
from hypar.sharding.numbering import layout
from hypar.sharding.placement import terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.transfers import Sums
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs


def added(
    nests: Sequence[Nest],
    options: Options,
    sizes: Sequence[LocalSizes],
    level: Level,
    sums: Sequence[Sums],
) -> Costs:
    """Return the elements received to add up the partial sums of layers of equal roles, with equal options.

    Terms go to an owner of each element, and its sum to all that had terms of it; rows beside a border have one owner.

    Returns:
        Elements that all devices receive, ``[layers, tensors, tuples above, options]``; behind the tensors the rows of
        E_in beside the borders of each dim, where they are received by themselves.
    """
    left = np.array([own.fractions for own in sizes])
    every = replace(sizes[0], fractions=left)
    copies = np.stack([level.copies(every, nests[0], tensor) for tensor in nests[0].names], axis=1)
    at_level = computing(nests[0].unsized, options, level.ways)
    elements = np.array([elements_of(*own) for own in zip(nests, sums, strict=True)])
    total: Costs = np.zeros((len(nests), len(at_level) + len(SPATIAL), copies.shape[2], len(options)))
    total[:, : len(at_level)] = (elements * copies)[..., None] * at_level[:, None, :, 1]
    grids, here = layout(options, level.ways), at_level[0, :, 0]
    for at, (nest, own, own_sums) in enumerate(zip(nests, sizes, sums, strict=True)):
        dims = {
            dim: border
            for dim, border in windowed(nest).items()
            if dim in grids.chosen or own.of(dim).min() < 1
        }
        if not (dims and own_sums.input):
            continue
        shards, above, reads = elements[at, 0] * copies[at, 0][:, None], np.ones(1), here
        for row, (dim, border) in enumerate(dims.items(), start=len(at_level)):
            more = beyond(nest, dim, grids.degree(dim), own, apart=own_sums.apart)
            if own_sums.apart:
                total[at, row] = shards * here * more
            else:
                above, reads = above * rows_read(border, own.of(dim)), reads * (1.0 + more)
        total[at, 0] += shards * (above[:, None] * (reads - 1.0) - (here - 1.0))
    return total


@lru_cache(maxsize=4096)
def computing(roles: Nest, options: Options, ways: int) -> Costs:
    """Return the devices that compute each element of each tensor, and the copies of it that are received as terms.

    Returns:
        ``[tensors, options, 2]``; no copies are received of the results of an op that multiplies nothing.
    """
    own = layout(options, ways)
    found = np.zeros((len(roles.names), len(options), 2))
    for row, tensor in enumerate(roles.names):
        found[row, :, 0] = own.working
        for dim in roles.names[tensor]:
            found[row, :, 0] /= own.degree(dim)
        found[row, :, 1] = 2.0 * (terms(roles, tensor, own.chosen) - 1.0)
    return found


@lru_cache(maxsize=4096)
def elements_of(nest: Nest, sums: Sums) -> Costs:
    """Return the elements of each tensor, none of those whose sums are not added up inside the layer."""
    read = nest.input_elements * (1.0 if sums.apart else fraction_read(nest)) if sums.input else 0.0
    made = (sums.as_read if sums.apart else nest.elements("output")) if sums.output else 0.0
    weight = nest.elements("weight") if sums.weight else 0.0
    others = [[nest.elements(tensor) if sums.input else 0.0] for tensor in nest.others]
    return np.array([[read], [weight], [made], *others], dtype=np.float64)
