"""The problem from coarse to fine of a network under ``paper``: a level sees what those above it have left of each tensor.

What is left of a tensor follows from how often each choice was made, as fractions multiply in any order.
"""

from __future__ import annotations

from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from hypar.costs.base import measured
from hypar.sharding.levels import WHOLE_LAYER, LocalSizes
from hypar.solve.coarse.ladder import Ladder, Rung
from hypar.solve.coarse.lattice import lattice_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from hypar.costs.base import Cost
    from hypar.network.contraction import ContractedGraph, CutLayer
    from hypar.sharding.levels import Level
    from hypar.sharding.placement import Options
    from hypar.solve.coarse.lattice import Lattice
    from hypar.solve.edge import Costs


def runs_of(levels: Sequence[Level], options: Sequence[tuple[Options, ...]]) -> tuple[int, ...]:
    """Return the numbers of levels in a row that have the same ways, and at which every layer has the same options."""
    kinds = [(level.ways, *[own[level.index] for own in options]) for level in levels]
    return tuple(len([*own]) for _, own in groupby(kinds))


def stepped(
    cost: Cost, graph: ContractedGraph, levels: Sequence[Level], options: Sequence[tuple[Options, ...]]
) -> Ladder:
    """Return the problem of a network; equal layers and equal tensors share their arrays."""
    runs = runs_of(levels, options)
    firsts = np.cumsum((0, *runs[:-1])).tolist()
    numbers: dict[Hashable, int] = {}
    keys = [
        (layer.einsum, layer.output_elements, numbers.setdefault((own, measured(cost, layer)), len(numbers)))
        for layer, own in zip(graph.layers, options, strict=True)
    ]
    sizes: dict[Hashable, list[LocalSizes]] = {}
    nodes: dict[Hashable, tuple[Costs, ...]] = {}
    digits = [tuple(len(own[first]) for first in firsts) for own in options]
    for key, layer, own, of_run in zip(keys, graph.layers, options, digits, strict=True):
        if key not in nodes:
            sizes[key] = _sizes(layer, levels, own, lattice_of(runs, of_run))
            every = zip(levels, own, sizes[key], strict=True)
            nodes[key] = tuple(
                reduce(np.add, cost.layer_costs(level, layer, choices, left).values())
                for level, choices, left in every
            )
    terms: dict[Hashable, tuple[Costs, ...]] = {}
    links = []
    for tensor in graph.tensors:
        ends = (tensor.producer, tensor.consumer)
        made, read = keys[ends[0]], keys[ends[1]]
        pair = (made[0], made[2], read, tensor.content)
        if pair not in terms:
            layers = (graph.layers[ends[0]], graph.layers[ends[1]])
            both = zip(levels, options[ends[0]], options[ends[1]], sizes[read], strict=True)
            terms[pair] = tuple(
                cost.tensor_costs(level, tensor, layers, (here, there), left)
                for level, here, there, left in both
            )
        links.append(Rung(*ends, terms[pair]))
    return Ladder(
        runs=runs, options=tuple(digits), nodes=tuple(nodes[key] for key in keys), links=tuple(links)
    )


def _sizes(
    layer: CutLayer, levels: Sequence[Level], options: tuple[Options, ...], lattice: Lattice
) -> list[LocalSizes]:
    """Return the local sizes of a layer above each level, for each state of how often each choice was made."""
    found = [WHOLE_LAYER]
    for level, choices in zip(levels[:-1], options, strict=False):
        below = lattice.below(level.index, 1)
        left = found[-1].divided(layer.einsum, choices, level.ways)
        first = np.unique(below.reshape(-1), return_index=True)[1]
        found.append(LocalSizes(left.fractions[:, first], left.idle))
    return found
