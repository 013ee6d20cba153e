"""Costs of transfers at a rate for each collective, as arrays over choices.

Rates of one per byte give the communication, rates in seconds per byte of a machine give time. Both use the same
transfers.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.grids.layouts import layout
from hypar.sharding.grids.manners import CODE
from hypar.sharding.redistribution import COLLECTIVES
from hypar.sharding.transfers import between, borders, crossing, halo, insides, simple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.network.nodes import PlanNode, Tensor
    from hypar.ops.nest import Nest
    from hypar.sharding.grids.manners import Manner
    from hypar.sharding.levels import LocalSizes
    from hypar.sharding.placement import Options
    from hypar.sharding.redistribution import Number
    from hypar.sharding.transfers import Border, Transfer
    from hypar.solve.edge import Costs


class Rate(NamedTuple):
    """Cost of a transfer as a line over its elements, for each of ``COLLECTIVES``.

    Attributes:
        per_element: cost of an element received.
        once: fixed cost of a transfer.
    """

    per_element: tuple[float, ...]
    once: tuple[float, ...]


class Rates(NamedTuple):
    """Costs of moving elements.

    Attributes:
        lines: the costs of a transfer by several algorithms, of which the least one counts.
        together: whether all devices receive at the same time, so that the elements of one device count;
            otherwise those of all devices count.
        direct: whether the terms of E go straight to the devices that need them, and shards have whole elements.
    """

    lines: tuple[Rate, ...]
    together: bool = False
    direct: bool = False

    @property
    def price(self) -> float | None:
        """The cost of an element if it is the same for every collective, and transfers cost nothing else."""
        return _price(self)

    @property
    def late(self) -> bool:
        """Whether transfers cost something whatever their elements."""
        return any(any(rate.once) for rate in self.lines)


@lru_cache(maxsize=256)
def _price(rates: Rates) -> float | None:
    (first, *others) = rates.lines
    same = not others and len({*first.per_element}) == 1 and not rates.late and not rates.together
    return float(first.per_element[0]) if same else None


@lru_cache(maxsize=256)
def even_rates(per_element: float, *, direct: bool = False) -> Rates:
    """Return rates with the same cost per element for every collective."""
    rate = Rate((per_element,) * len(COLLECTIVES), (0.0,) * len(COLLECTIVES))
    return Rates((rate,), direct=direct)


def least_of(lines: Iterable[Costs]) -> Costs:
    """Return the least of the costs by several algorithms."""
    return reduce(np.minimum, lines)


def inside_costs(
    layer: PlanNode, options: Options, sizes: LocalSizes, ways: int, rates: Rates
) -> dict[str, Costs]:
    """Return the costs of reducing the partial sums of each option: ``[tuples above, options]`` per item.

    Returns:
        ``update`` for weight gradients; ``sums`` for F_out, E_in, and the halo of a sharded image's error. Where the
        terms of E go straight to their readers, F_out is added up before the ops behind the layer make it smaller.
    """
    nest = layer.nest
    made = nest.elements("output") if rates.direct else layer.output_elements
    amounts = elements_of(nest, made) * sizes.of_tensors(nest)
    found = least_of(
        amounts[:, :, None] * each[:, None] + once[:, None]
        for each, once in _inside(nest, options, ways, rates)
    )
    items = dict(zip(nest.tensors, found, strict=True))
    sums = sum((items[tensor] for tensor in nest.others), items["input"] + items["output"])
    for column, border in () if rates.direct else _borders(nest, options, ways):
        fraction = halo(border, sizes.of(border.dim))
        devices = options[column].devices(ways) if rates.together else 1
        sums[:, column] += least_of(
            rate.per_element[CODE["neighbours"]] / devices * fraction * amounts[0]
            + rate.once[CODE["neighbours"]]
            for rate in rates.lines
        )
    return {"update": items["weight"], "sums": sums}


def between_costs(
    tensor: Tensor,
    ends: tuple[PlanNode, PlanNode],
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
    made, read, contracted = ends[0].nest, ends[1].nest, tensor.content.contracted
    amount = tensor.elements * sizes.of("input")
    costs: Costs = np.zeros((len(options[0]), len(amount), len(options[1])))
    for lines in _between(made.unsized, read.unsized, options, contracted, ways, rates):
        costs += least_of(each[:, None, :] * amount[:, None] + once[:, None, :] for each, once in lines)
    for column, border in _borders(read, options[1], ways):
        for row, maker in enumerate(options[0]):
            found = crossing(made, maker, read, options[1][column], contracted, ways)
            if found is not None:
                moved = between(made.unsized, maker, read.unsized, options[1][column], contracted, ways)
                own = sum(item.fraction for item in moved if item[:3] == ("forward", "input", found[0]))
                rest = _added_halo(rates, found, ways, own, amount, halo(border, sizes.of(border.dim)))
                costs[row, :, column] += rest
    return costs


def _added_halo(
    rates: Rates, over: tuple[str, float], ways: int, own: float, amount: Costs, size: Number
) -> Costs:
    """Return what a halo costs besides the transfer of F that it goes with, if there is one.

    Args:
        rates: the costs of a transfer.
        over: the collective, and the fraction of the halo that it must move.
        ways: devices of a group.
        own: the fraction of F that the same collective moves without the halo.
        amount: elements of F.
        size: the halo as a fraction of F.
    """
    code, devices = CODE[over[0]], ways if rates.together else 1
    extra = [line.per_element[code] / devices * over[1] * size * amount for line in rates.lines]
    if own and len(rates.lines) == 1:
        return np.asarray(extra[0])
    alone = [line.per_element[code] / devices * own * amount + line.once[code] for line in rates.lines]
    costs = least_of(one + more for one, more in zip(alone, extra, strict=True))
    return costs - least_of(alone) if own else costs


def _reshard_costs(
    tensor: Tensor,
    ends: tuple[PlanNode, PlanNode],
    options: tuple[Options, Options],
    sizes: LocalSizes,
    ways: int,
    rates: Rates,
) -> Costs:
    """Compute ``between_costs`` for choices that divide several dims or leave devices idle."""
    nests = (ends[0].nest, ends[1].nest)
    left = np.stack([sizes.of(dim) for dim in nests[1].names["input"]], axis=1)
    if len(left) == 1:
        return _summed_reshards(nests, options, tensor, ways, tuple(left[0].tolist()), rates)[:, None]
    distinct, which = np.unique(left, axis=0, return_inverse=True)
    found = [_summed_reshards(nests, options, tensor, ways, tuple(row), rates) for row in distinct.tolist()]
    return np.stack([found[index] for index in which.reshape(-1)], axis=1)


def _summed_reshards(
    nests: tuple[Nest, Nest],
    options: tuple[Options, Options],
    tensor: Tensor,
    ways: int,
    fractions: tuple[float, ...],
    rates: Rates,
) -> Costs:
    """Cost of each pair of options, ``[made, read]``."""
    from hypar.sharding.grids.reshard import Gap, reshards  # noqa: PLC0415 (only for choices that are grids)

    total: Costs = np.zeros((len(options[0]), len(options[1])))
    for move in reshards(Gap(nests, tensor.content, ways, fractions, rates.direct), options):
        total += least_of(
            move.elements * each if once is None else move.elements * each + once * (move.elements > 0)
            for each, once in _weights(move.manner, rates)
        )
    return total


@lru_cache(maxsize=16)
def _weights(manner: Manner, rates: Rates) -> list[tuple[Costs, Costs | None]]:
    """Return the cost of an element, and of a transfer if that costs anything, for each line and pair of options."""
    devices = manner.devices if rates.together else 1
    return [
        (
            np.array(line.per_element).take(manner.collectives) / devices,
            np.array(line.once).take(manner.collectives) if rates.late else None,
        )
        for line in rates.lines
    ]


@lru_cache(maxsize=4096)
def all_simple(options: tuple[Options, Options], ways: int) -> bool:
    """Return whether every choice of both layers is simple."""
    return all(simple(choice, ways) for end in options for choice in end)


@lru_cache(maxsize=4096)
def elements_of(nest: Nest, output_elements: int) -> Costs:
    """Return the elements of each tensor, ``[tensors, 1]``."""
    return np.array([elements_listed(nest, output_elements)], dtype=np.float64).T


def elements_listed(nest: Nest, output_elements: int) -> list[int]:
    """Return the elements of each tensor."""
    others = [nest.elements(tensor) for tensor in nest.others]
    return [nest.input_elements, nest.elements("weight"), output_elements, *others]


@lru_cache(maxsize=4096)
def _inside(nest: Nest, options: Options, ways: int, rates: Rates) -> list[tuple[Costs, Costs]]:
    """Return the costs of an element and of a transfer of each tensor, both ``[3, options]``, for each line."""
    return _inside_of(nest.unsized, options, ways, rates)


@lru_cache(maxsize=1024)
def _inside_of(roles: Nest, options: Options, ways: int, rates: Rates) -> list[tuple[Costs, Costs]]:
    """Compute ``_inside`` once for all layers whose dims have the same roles."""
    grids = layout(options, ways)
    devices = grids.working if rates.together else 1
    found = []
    for line in rates.lines:
        each, once = np.zeros((2, len(roles.tensors), len(options)))
        for tensor, collective, fractions in insides(roles, grids.working, grids.chosen, rates.direct):
            code = CODE[collective]
            each[roles.tensors.index(tensor)] += line.per_element[code] * fractions / devices
            once[roles.tensors.index(tensor)] += line.once[code] * (fractions > 0)
        found.append((each, once))
    return found


@lru_cache(maxsize=4096)
def _between(
    made: Nest,
    read: Nest,
    options: tuple[Options, Options],
    contracted: frozenset[str],
    ways: int,
    rates: Rates,
) -> list[list[tuple[Costs, Costs]]]:
    """Return the costs of an element and of a transfer for each pair of options, ``[made, read]``.

    Returns:
        For each transfer of a pair the costs by each line; with one line the sums over all transfers.
    """
    moved = [[between(made, a, read, b, contracted, ways) for b in options[1]] for a in options[0]]
    if len(rates.lines) == 1:
        return [[_priced(moved, rates.lines[0], rates.together)]]
    most = max(len(pair) for row in moved for pair in row)
    nth = ([[pair[number : number + 1] for pair in row] for row in moved] for number in range(most))
    return [[_priced(own, line, rates.together) for line in rates.lines] for own in nth]


def _priced(
    moved: Sequence[Sequence[tuple[Transfer, ...]]], line: Rate, together: bool
) -> tuple[Costs, Costs]:
    """Return the costs of an element and of the transfers of each pair of options by one line."""
    each = [
        [
            sum(
                line.per_element[CODE[item.collective]] / (item.devices if together else 1) * item.fraction
                for item in pair
            )
            for pair in row
        ]
        for row in moved
    ]
    once = [[sum(line.once[CODE[item.collective]] for item in pair) for pair in row] for row in moved]
    return np.array(each, dtype=np.float64), np.array(once, dtype=np.float64)


@lru_cache(maxsize=4096)
def _borders(nest: Nest, options: Options, ways: int) -> tuple[tuple[int, Border], ...]:
    """Return the options that shard an image read by a window: index and border."""
    return tuple(
        (column, border) for column, choice in enumerate(options) for border in borders(nest, choice, ways)
    )
