"""What transfers cost at a rate for each manner of moving, as arrays over choices.

With one for every byte this is volume; with a machine's seconds a byte it is time. Both read the same
transfers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hypar.levels import TENSORS, LocalSizes, Options
from hypar.transfers import between, border, crossing, halo, inside
from hypar.words import COLLECTIVES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.graph import CutLayer, Tensor
    from hypar.ops.base import Einsum
    from hypar.placement import Choice
    from hypar.problem import Costs
    from hypar.transfers import Transfer


@dataclass(frozen=True, slots=True)
class Rates:
    """What it costs to move something.

    Attributes:
        per_element: cost of an element that any device of a group receives, for each of ``COLLECTIVES``.
        once: cost of there being such a transfer at all.
    """

    per_element: tuple[float, ...]
    once: tuple[float, ...]

    def weights(self, collective: str) -> tuple[float, float]:
        """Both costs of a manner of moving."""
        number = COLLECTIVES.index(collective)
        return self.per_element[number], self.once[number]


def even_rates(per_element: float) -> Rates:
    """The same cost for every element, however it moves."""
    return Rates((per_element,) * len(COLLECTIVES), (0.0,) * len(COLLECTIVES))


def inside_costs(layer: CutLayer, options: Options, sizes: LocalSizes, ways: int, rates: Rates) -> Costs:
    """Adding up what each option leaves partial, and the halo of a cut image's error.

    Returns:
        ``[tuples above, options]``.
    """
    einsum = layer.einsum
    amounts = _elements(einsum, layer.output_elements) * sizes.parts[:3]
    each, once = _inside(einsum, options, ways, rates)
    total: Costs = np.einsum("tp,tc->pc", amounts, each)
    total += once
    for column, edge, size in _borders(einsum, options, sizes):
        per_element, fixed = rates.weights("neighbours")
        total[:, column] += per_element * halo(edge, size, ways) * amounts[0] + fixed
    return total


def between_costs(
    tensor: Tensor,
    ends: tuple[CutLayer, CutLayer],
    options: tuple[Options, Options],
    sizes: LocalSizes,
    ways: int,
    rates: Rates,
) -> Costs:
    """F from producer to consumer, E from consumer to producer.

    Returns:
        ``[options of producer, tuples above of consumer, options of consumer]``.
    """
    made, read = ends[0].einsum, ends[1].einsum
    each, once = _between(made, read, options, tensor.contracted, ways, rates)
    amount = tensor.elements * sizes.of("input")
    costs: Costs = each[:, None, :] * amount[:, None] + once[:, None, :]
    for column, edge, size in _borders(read, options[1], sizes):
        for row, maker in enumerate(options[0]):
            found = crossing(made, maker, read, options[1][column], tensor.contracted, ways)
            if found is not None:
                per_element, fixed = rates.weights(found[0])
                extra = per_element * found[1] * halo(edge, size, ways) * amount
                costs[row, :, column] += extra + fixed * (found[0] == "neighbours")
    return costs


@lru_cache(maxsize=4096)
def _elements(einsum: Einsum, output_elements: int) -> Costs:
    """Elements of the three tensors, ``[3, 1]``."""
    return np.array(
        [[einsum.input_elements], [einsum.elements("weight")], [output_elements]], dtype=np.float64
    )


@lru_cache(maxsize=4096)
def _inside(einsum: Einsum, options: Options, ways: int, rates: Rates) -> tuple[Costs, Costs]:
    """Cost of an element of each tensor, ``[3, options]``, and of there being transfers, ``[options]``."""
    each, once = np.zeros((len(TENSORS), len(options))), np.zeros(len(options))
    for column, choice in enumerate(options):
        for transfer in inside(einsum, choice, ways):
            per_element, fixed = rates.weights(transfer.collective)
            each[TENSORS.index(transfer.tensor), column] += per_element * transfer.parts
            once[column] += fixed
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
    """Cost of an element, and of there being transfers, for each pair of options: ``[made, read]``."""
    moved = [[between(made, a, read, b, contracted, ways) for b in options[1]] for a in options[0]]
    return _summed(moved, rates, 0), _summed(moved, rates, 1)


def _summed(moved: Sequence[Sequence[Sequence[Transfer]]], rates: Rates, which: int) -> Costs:
    """The costs of an element, or those of there being a transfer, summed over the transfers of each pair."""
    return np.array(
        [
            [
                sum(rates.weights(item.collective)[which] * (1 if which else item.parts) for item in pair)
                for pair in row
            ]
            for row in moved
        ],
        dtype=np.float64,
    )


def _borders(einsum: Einsum, options: Options, sizes: LocalSizes) -> list[tuple[int, float, Costs]]:
    """The options that cut an image read by a window: index, halo in parts of F_in, what is left of the dim."""
    return [(column, edge, sizes.of(dim)) for column, edge, dim in _cut_windows(einsum, options)]


@lru_cache(maxsize=4096)
def _cut_windows(einsum: Einsum, options: tuple[Choice, ...]) -> tuple[tuple[int, float, str], ...]:
    """As ``_borders``, with the dim itself."""
    return tuple(
        (column, border(einsum, choice), choice.dim)
        for column, choice in enumerate(options)
        if choice.dim is not None and border(einsum, choice)
    )
