"""The partial sums that are added up inside a layer, level by level."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.amounts.flows import Sums, fraction_read
from hypar.sharding.amounts.rows import border_of, rest_of, rows_read, windowed
from hypar.sharding.grids.layouts import layout
from hypar.sharding.levels import WORKING
from hypar.sharding.transfers import PHASE_OF, Border, halo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hypar.network.contraction import CutLayer
    from hypar.network.ops.base import Einsum
    from hypar.sharding.grids.layouts import Layout
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs


class Added(NamedTuple):
    """A result whose partial sums are added up at a level.

    Attributes:
        phase: the phase that computes it.
        tensor: ``output``, ``input`` or ``weight``.
        summed: whether devices have terms of all of it, and not of border rows alone, ``[options]``.
        elements: elements that all devices receive, ``[tuples above, options]``.
    """

    phase: str
    tensor: str
    summed: NDArray[np.bool_]
    elements: Costs


def added(layer: CutLayer, options: Options, sizes: LocalSizes, level: Level, sums: Sums) -> Iterator[Added]:
    """Yield the results of a layer that are added up, wherever a device has terms of them.

    Terms go to an owner of each element, and its sum to all that had terms of it; rows beside a border have one owner.
    """
    einsum, own = layer.einsum, layout(options, level.ways)
    above = level.groups * sizes.of(WORKING)
    for tensor in ("output", "input", "weight"):
        if not (einsum.weight or tensor == "input") or not getattr(sums, tensor, True):
            continue
        copies, at_level = above * sizes.of(tensor), _copies(einsum, own, tensor)
        whole = copies[:, None] * (at_level - 1.0)
        elements = float(einsum.elements(tensor)) * (fraction_read(einsum) if tensor == "input" else 1.0)
        total = 2.0 * whole if einsum.weight else np.zeros_like(whole)
        if tensor == "input" and windowed(einsum):
            total = total + _borders(einsum, options, sizes, (copies, at_level))
        if total.any():
            yield Added(PHASE_OF[tensor], tensor, (at_level > 1) & bool(einsum.weight), elements * total)


def _copies(einsum: Einsum, own: Layout, tensor: str) -> Costs:
    """Return the number of devices that compute each element of a tensor, ``[options]``."""
    found: Costs = own.working.astype(np.float64)
    for dim in einsum.dims(tensor):
        found = found / own.degree(dim)
    return found


def _borders(einsum: Einsum, options: Options, sizes: LocalSizes, copies: tuple[Costs, Costs]) -> Costs:
    """Return the multiple of E_in that is received for the rows beside borders, ``[tuples above, options]``."""
    above, beyond = np.ones(1), np.ones((sizes.fractions.shape[1], len(options)))
    for dim in windowed(einsum):
        above = above * rows_read(border_of(einsum, dim), sizes.of(dim))
        rest = rest_of(einsum, dim, sizes)
        for column, choice in enumerate(options):
            if choice.degree(dim) > 1:
                border = Border(dim, border_of(einsum, dim), choice.degree(dim), 1)
                beyond[:, column] *= 1.0 + halo(border, rest)
    (before, here), above = copies, above[:, None]
    with_rows = above * (here * beyond - 1.0)
    return before[:, None] * (with_rows - (here - 1.0))
