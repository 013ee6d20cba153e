"""Costs of transfers at a rate for each collective, as arrays over choices.

Rates of one per byte give the communication, rates in seconds per byte of a machine give time. Both use the same
transfers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.grids.layouts import layout
from hypar.sharding.levels import TENSORS, LocalSizes
from hypar.sharding.redistribution import COLLECTIVES
from hypar.sharding.transfers import between, borders, crossing, halo, insides, simple

if TYPE_CHECKING:
    from hypar.network.contraction import CutLayer, Tensor
    from hypar.network.ops.base import Einsum, Roles
    from hypar.sharding.grids.manners import Manner
    from hypar.sharding.placement import Options
    from hypar.sharding.transfers import Border
    from hypar.solve.edge import Costs


class Rates(NamedTuple):
    """Costs of moving elements.

    Attributes:
        per_element: cost of an element received, for each of ``COLLECTIVES``.
        once: fixed cost of a transfer, for each of ``COLLECTIVES``.
        together: whether all devices receive at the same time, so that the elements of one device count;
            otherwise those of all devices count.
        direct: whether the terms of E go straight to the devices that need them, and shards have whole elements.
    """

    per_element: tuple[float, ...]
    once: tuple[float, ...]
    together: bool = False
    direct: bool = False

    @property
    def price(self) -> float | None:
        """The cost of an element if it is the same for every collective, and transfers cost nothing else."""
        return _price(self)

    def each(self, collective: str, devices: int) -> float:
        """Return the cost of an element received by one of several devices."""
        return self.per_element[COLLECTIVES.index(collective)] / (devices if self.together else 1)

    def at_all(self, collective: str) -> float:
        """Return the fixed cost of a transfer."""
        return self.once[COLLECTIVES.index(collective)]


@lru_cache(maxsize=256)
def _price(rates: Rates) -> float | None:
    same = len({*rates.per_element}) == 1 and not any(rates.once) and not rates.together
    return float(rates.per_element[0]) if same else None


@lru_cache(maxsize=256)
def even_rates(per_element: float, *, direct: bool = False) -> Rates:
    """Return rates with the same cost per element for every collective."""
    return Rates((per_element,) * len(COLLECTIVES), (0.0,) * len(COLLECTIVES), direct=direct)


def inside_costs(
    layer: CutLayer, options: Options, sizes: LocalSizes, ways: int, rates: Rates
) -> dict[str, Costs]:
    """Return the costs of reducing the partial sums of each option: ``[tuples above, options]`` per item.

    Returns:
        ``update`` for weight gradients; ``sums`` for F_out, E_in, and the halo of a sharded image's error.
    """
    einsum = layer.einsum
    amounts = _elements(einsum, layer.output_elements) * sizes.fractions[:3]
    each, once = _inside(einsum, options, ways, rates)
    found = amounts[:, :, None] * each[:, None] + once[:, None]
    items = dict(zip(TENSORS, found, strict=True))
    sums = items["input"] + items["output"]
    for column, border in () if rates.direct else _borders(einsum, options, ways):
        per_element = rates.each("neighbours", options[column].devices(ways))
        sums[:, column] += per_element * halo(border, sizes.of(border.dim)) * amounts[0]
        sums[:, column] += rates.at_all("neighbours")
    return {"update": items["weight"], "sums": sums}


def between_costs(
    tensor: Tensor,
    ends: tuple[CutLayer, CutLayer],
    options: tuple[Options, Options],
    sizes: LocalSizes,
    ways: int,
    rates: Rates,
) -> Costs:
    """Return the costs of moving F from producer to consumer and E from consumer to producer.

    Returns:
        ``[options of producer, tuples above of consumer, options of consumer]``.
    """
    if rates.direct or not all_simple(options, ways):
        return _reshard_costs(tensor, ends, options, sizes, ways, rates)
    made, read, contracted = ends[0].einsum, ends[1].einsum, tensor.content.contracted
    each, once = _between(made.unsized(), read.unsized(), options, contracted, ways, rates)
    amount = tensor.elements * sizes.of("input")
    costs: Costs = each[:, None, :] * amount[:, None] + once[:, None, :]
    for column, border in _borders(read, options[1], ways):
        for row, maker in enumerate(options[0]):
            found = crossing(made, maker, read, options[1][column], contracted, ways)
            if found is not None:
                extra = rates.each(found[0], ways) * found[1] * halo(border, sizes.of(border.dim)) * amount
                costs[row, :, column] += extra + rates.at_all(found[0]) * (found[0] == "neighbours")
    return costs


def _reshard_costs(
    tensor: Tensor,
    ends: tuple[CutLayer, CutLayer],
    options: tuple[Options, Options],
    sizes: LocalSizes,
    ways: int,
    rates: Rates,
) -> Costs:
    """Compute ``between_costs`` for choices that divide several dims or leave devices idle."""
    einsums = (ends[0].einsum, ends[1].einsum)
    left = np.stack([sizes.of(dim) for dim in einsums[1].input], axis=1)
    if len(left) == 1:
        return _summed_reshards(einsums, options, tensor, ways, tuple(left[0].tolist()), rates)[:, None]
    distinct, which = np.unique(left, axis=0, return_inverse=True)
    found = [_summed_reshards(einsums, options, tensor, ways, tuple(row), rates) for row in distinct.tolist()]
    return np.stack([found[index] for index in which.reshape(-1)], axis=1)


def _summed_reshards(
    einsums: tuple[Einsum, Einsum],
    options: tuple[Options, Options],
    tensor: Tensor,
    ways: int,
    fractions: tuple[float, ...],
    rates: Rates,
) -> Costs:
    """Cost of each pair of options, ``[made, read]``."""
    from hypar.sharding.grids.reshard import Gap, reshards  # noqa: PLC0415 (only for choices that are grids)

    total: Costs = np.zeros((len(options[0]), len(options[1])))
    for move in reshards(Gap(einsums, tensor.content, ways, fractions, rates.direct), options):
        each, once = _weights(move.manner, rates)
        total += move.elements * each
        if once is not None:
            total += once * (move.elements > 0)
    return total


@lru_cache(maxsize=64)
def _weights(manner: Manner, rates: Rates) -> tuple[Costs, Costs | None]:
    """Return the cost of an element, and of a transfer if that costs anything, for each pair of options."""
    each = np.array(rates.per_element).take(manner.collectives)
    once = np.array(rates.once).take(manner.collectives) if any(rates.once) else None
    return each / manner.devices if rates.together else each, once


@lru_cache(maxsize=4096)
def all_simple(options: tuple[Options, Options], ways: int) -> bool:
    """Return whether every choice of both layers is simple."""
    return all(simple(choice, ways) for end in options for choice in end)


@lru_cache(maxsize=4096)
def _elements(einsum: Einsum, output_elements: int) -> Costs:
    return np.array(
        [[einsum.input_elements], [einsum.elements("weight")], [output_elements]], dtype=np.float64
    )


@lru_cache(maxsize=4096)
def _inside(einsum: Einsum, options: Options, ways: int, rates: Rates) -> tuple[Costs, Costs]:
    """Return the costs of an element and of a transfer of each tensor, both ``[3, options]``."""
    return _inside_of(einsum.roles, options, ways, rates)


@lru_cache(maxsize=1024)
def _inside_of(roles: Roles, options: Options, ways: int, rates: Rates) -> tuple[Costs, Costs]:
    """Compute ``_inside`` once for all layers whose dims have the same roles."""
    each, once = np.zeros((2, len(TENSORS), len(options)))
    grids = layout(options, ways)
    for tensor, collective, fractions in insides(roles, grids.working, grids.chosen, rates.direct):
        devices = grids.working if rates.together else 1
        each[TENSORS.index(tensor)] += rates.each(collective, 1) * fractions / devices
        once[TENSORS.index(tensor)] += rates.at_all(collective) * (fractions > 0)
    return each, once


@lru_cache(maxsize=4096)
def _between(
    made: Einsum,
    read: Einsum,
    options: tuple[Options, Options],
    contracted: frozenset[str],
    ways: int,
    rates: Rates,
) -> tuple[Costs, Costs]:
    """Return the costs of an element and of transfers for each pair of options, ``[made, read]``."""
    moved = [[between(made, a, read, b, contracted, ways) for b in options[1]] for a in options[0]]
    each = [
        [sum(rates.each(item.collective, item.devices) * item.fraction for item in pair) for pair in row]
        for row in moved
    ]
    once = [[sum(rates.at_all(item.collective) for item in pair) for pair in row] for row in moved]
    return np.array(each, dtype=np.float64), np.array(once, dtype=np.float64)


@lru_cache(maxsize=4096)
def _borders(einsum: Einsum, options: Options, ways: int) -> tuple[tuple[int, Border], ...]:
    """Return the options that shard an image read by a window: index and border."""
    return tuple(
        (column, border) for column, choice in enumerate(options) for border in borders(einsum, choice, ways)
    )
