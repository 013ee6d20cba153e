"""Layers of equal roles, and tensors between equal dims, as the tuples of one layer and of one tensor.

A cost of the elements that are moved takes the elements that the levels above leave of a tensor, whichever layer's they
are. With the elements of each layer in the place of a fraction of one layer's, many layers are one call.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, reduce
from typing import TYPE_CHECKING

import numpy as np

from hypar.network.contraction import Content, CutLayer, Tensor
from hypar.sharding.dims import SPATIAL
from hypar.sharding.levels import TENSORS, LocalSizes
from hypar.sharding.rates import elements_of
from hypar.sharding.transfers import simple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.costs.base import Cost, Items, MovingCost
    from hypar.network.einsum import Einsum
    from hypar.sharding.levels import Level
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs


def counts_elements(cost: Cost, level: Level, offered: Iterable[Options]) -> bool:
    """Return whether transfers cost by their elements alone, not by whole rows or by the shards of grids."""
    moving = hasattr(cost, "inside") and not cost.direct
    return moving and all(_cuts_one_dim(options, level.ways) for options in offered)


@lru_cache(maxsize=1024)
def _cuts_one_dim(options: Options, ways: int) -> bool:
    """Return whether every choice divides one dim over all devices, none along which windows reach."""
    return all(simple(choice, ways) and {*SPATIAL}.isdisjoint(choice.divided) for choice in options)


def of_layers(
    cost: MovingCost, level: Level, layers: Sequence[CutLayer], options: Options, sizes: Sequence[LocalSizes]
) -> Costs:
    """Return the costs of layers of equal roles, each below one tuple, ``[layers, options]``."""
    elements = [elements_of(layer.einsum, layer.output_elements) for layer in layers]
    beside = _beside(layers[0].einsum, sizes, np.concatenate(elements, axis=1))
    moved = cost.inside(level, _unit(layers[0].einsum.unsized()), options, beside)
    work = {name: costs[:, 0] for name, costs in work_of(cost, level, layers, options, sizes).items()}
    return reduce(np.add, {**moved, **work}.values())


def work_of(
    cost: MovingCost, level: Level, layers: Sequence[CutLayer], options: Options, sizes: Sequence[LocalSizes]
) -> Items:
    """Return the costs of layers that are no transfers, ``[layers, tuples above, options]`` for each item."""
    works = [cost.work(level, layer, options, own) for layer, own in zip(layers, sizes, strict=True)]
    nothing = np.zeros((sizes[0].fractions.shape[1], len(options)))
    names = dict.fromkeys(name for work in works for name in work)
    return {name: np.stack([work.get(name, nothing) for work in works]) for name in names}


def of_tensors(
    cost: Cost,
    level: Level,
    tensors: Sequence[Tensor],
    ends: tuple[CutLayer, CutLayer],
    options: tuple[Options, Options],
    sizes: Sequence[LocalSizes],
) -> Costs:
    """Return the costs of tensors between equal dims, ``[tensors, options of producer, 1, options of consumer]``.

    Args:
        cost: the cost.
        level: the level.
        tensors: the tensors.
        ends: producer and consumer of one of them.
        options: their options.
        sizes: for each tensor the sizes of its consumer, of one tuple.
    """
    elements = np.array([tensor.elements for tensor in tensors], dtype=np.float64)
    one = Tensor(producer=0, consumer=1, content=Content(1, tensors[0].content.contracted, ()), number=0)
    made, read = (_unit(end.einsum.unsized()) for end in ends)
    costs = cost.tensor_costs(level, one, (made, read), options, _beside(ends[1].einsum, sizes, elements))
    return np.ascontiguousarray(costs.swapaxes(0, 1))[:, :, None]


def _beside(einsum: Einsum, sizes: Sequence[LocalSizes], elements: Costs) -> LocalSizes:
    """Return the elements of each tensor, ``[tensors, layers]``, that the levels above leave, for each layer as a tuple."""
    found = np.concatenate([own.fractions for own in sizes], axis=1)
    names = sizes[0].names
    if einsum.others:
        tensors = np.concatenate([own.of_tensors(einsum) for own in sizes], axis=1)
        rest = [row for row, name in enumerate(names) if name not in einsum.tensors]
        names = (*einsum.tensors, *(names[row] for row in rest))
        found = np.concatenate([tensors * elements, found[rest]])
    else:
        found[: len(TENSORS)] *= elements
    return LocalSizes(found, any(own.idle for own in sizes), names)


@lru_cache(maxsize=1024)
def _unit(unsized: Einsum) -> CutLayer:
    """Return a layer of some dims whose tensors have one element each."""
    dims = dict.fromkeys((dim for tensor in unsized.tensors for dim in sorted(unsized.dims(tensor))), 1)
    einsum = replace(unsized, sizes=dims, input_elements=1)
    return CutLayer(name="", op_name="", join=False, einsum=einsum, output_elements=1, trail=(), ahead=())
