"""The problem from coarse to fine of a network under ``paper``: a level sees what those above it have left of each tensor.

What is left of a tensor follows from how often each choice was made, as fractions multiply in any order.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from hypar.costs.base import measured
from hypar.sharding.levels import WHOLE_LAYER
from hypar.solve.coarse.ladder import Ladder, Rung
from hypar.solve.coarse.lattice import lattice_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from hypar.costs.base import Cost
    from hypar.network.nodes import PlanGraph, PlanNode
    from hypar.ops.nest import Nest
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Choice, Options
    from hypar.solve.coarse.lattice import Lattice
    from hypar.solve.coarse.merged import Classes
    from hypar.solve.edge import Costs


def runs_of(levels: Sequence[Level], options: Sequence[tuple[Options, ...]]) -> tuple[int, ...]:
    """Return the numbers of levels in a row that have the same ways, and at which every layer has the same options."""
    kinds = [(level.ways, *[own[level.index] for own in options]) for level in levels]
    return tuple(len([*own]) for _, own in groupby(kinds))


def roles_of(
    graph: PlanGraph, levels: Sequence[Level], options: Sequence[tuple[Options, ...]]
) -> list[Classes]:
    """Return for each layer and run the class of each option: options of a class divide dims that are alike to the layer.

    Dims of samples, which no weight of the network has, are alike, as are those of the input alone, those of the output alone, and
    those of both.
    """
    runs = runs_of(levels, options)
    firsts = np.cumsum((0, *runs[:-1])).tolist()
    weighed = {
        axes[dim]
        for layer in graph.layers
        for axes in _axes(layer.nest)
        for dim in axes
        if dim in layer.nest.weight
    }
    found: dict[Hashable, Classes] = {}
    keys = [(layer.nest, own) for layer, own in zip(graph.layers, options, strict=True)]
    for nest, own in keys:
        if (nest, own) not in found:
            roles = [[_role(nest, choice, weighed) for choice in own[first]] for first in firsts]
            found[nest, own] = tuple(
                tuple([*dict.fromkeys(of_run)].index(role) for role in of_run) for of_run in roles
            )
    return [found[key] for key in keys]


def _role(nest: Nest, choice: Choice, weighed: set[str]) -> Hashable:
    """Return the ways and the role of each dim that a choice divides."""
    found = []
    for dim, ways in choice.degrees:
        named = {axes[dim] for axes in _axes(nest) if dim in axes}
        feature = (dim in nest.input, dim in nest.output)
        found.append((ways, feature if not named or named & weighed else None))
    return tuple(found)


def _axes(nest: Nest) -> tuple[Mapping[str, str], ...]:
    """Return the axis of each dim in the activations that a layer reads and makes."""
    return (nest.input, nest.output, *nest.others)


def stepped(
    cost: Cost, graph: PlanGraph, levels: Sequence[Level], options: Sequence[tuple[Options, ...]]
) -> Ladder:
    """Return the problem of a network; equal layers and equal tensors share their arrays."""
    runs = runs_of(levels, options)
    firsts = np.cumsum((0, *runs[:-1])).tolist()
    numbers: dict[Hashable, int] = {}
    keys = [
        (layer.nest, layer.output_elements, numbers.setdefault((own, measured(cost, layer)), len(numbers)))
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
        pair = (made[0], made[2], read, tensor.content, tensor.operand)
        if pair not in terms:
            layers = graph.ends(tensor)
            both = zip(levels, options[ends[0]], options[ends[1]], sizes[read], strict=True)
            terms[pair] = tuple(
                cost.tensor_costs(level, tensor, layers, (here, there), left.read_at(tensor.operand))
                for level, here, there, left in both
            )
        links.append(Rung(*ends, terms[pair]))
    return Ladder(
        runs=runs, options=tuple(digits), nodes=tuple(nodes[key] for key in keys), links=tuple(links)
    )


def _sizes(
    layer: PlanNode, levels: Sequence[Level], options: tuple[Options, ...], lattice: Lattice
) -> list[LocalSizes]:
    """Return the local sizes of a layer above each level, for each state of how often each choice was made."""
    found = [WHOLE_LAYER]
    for level, choices in zip(levels[:-1], options, strict=False):
        below = lattice.below(level.index, 1)
        left = found[-1].divided(layer.nest, choices, level.ways)
        first = np.unique(below.reshape(-1), return_index=True)[1]
        found.append(replace(left, fractions=left.fractions[:, first]))
    return found
