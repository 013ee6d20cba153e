"""The cost graph of a network and its choices, for one level or several at once, under ``paper``.

A cost prices the choices of one level, given the fraction of every tensor that the levels above have left. This
module turns the prices into nodes and edges. With several levels a choice of a node is a tuple with one entry for
each level, outermost first; the tuples are in lexicographic order.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING, cast

import numpy as np

from hypar.costs.base import measured
from hypar.costs.graphs.alike import counts_elements, groups_of, together
from hypar.solve.cost_graph import CostGraph, Link, Structure
from hypar.solve.edge import Costs, Edge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.costs.base import Cost, MovingCost
    from hypar.network.nodes import PlanGraph, PlanNode, Tensor
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options


def structure(graph: PlanGraph, options: Sequence[Sequence[Options]]) -> Structure:
    """Return the shape of the cost graph, for the sizes of its tables before they are built."""
    digits = [tuple(len(at_level) for at_level in at_layer) for at_layer in options]
    return Structure(
        sizes=tuple(math.prod(of_layer) for of_layer in digits),
        links=tuple(
            Link(tensor.producer, tensor.consumer, digits[tensor.producer], digits[tensor.consumer])
            for tensor in graph.tensors
        ),
    )


def cost_graph(
    cost: Cost,
    graph: PlanGraph,
    levels: Sequence[Level],
    options: Sequence[tuple[Options, ...]],
    sizes: Sequence[LocalSizes],
    *,
    relaxed: bool = False,
) -> CostGraph:
    """Build the nodes and edges of the choices of consecutive levels.

    Args:
        cost: the cost of a choice.
        graph: the layers that are cut.
        levels: the levels, outermost first.
        options: for each layer, its options at each of the levels.
        sizes: for each layer its sizes below the levels outside these, for one tuple of choices.
        relaxed: for one level, whether ``sizes`` hold many tuples, the cheapest of which counts for every cost.

    Returns:
        One node a layer, one edge a tensor. Equal layers and equal edges of several levels share their arrays.
    """
    if len(levels) == 1 and not relaxed and counts_elements(cost):
        groups = groups_of(graph, tuple([own[0] for own in options]), levels[0].ways)
        if groups is not None:
            return together(cast("MovingCost", cost), levels[0], graph, groups, sizes)
    nodes: dict[object, tuple[Costs, list[LocalSizes]]] = {}
    edges: dict[object, tuple[Costs, ...]] = {}
    # Options and sizes are long: equal ones get a number, which takes their place in what is looked up.
    numbers: dict[object, int] = {}
    keys = [
        (
            layer.nest,
            layer.output_elements,
            numbers.setdefault((choices, measured(cost, layer)), len(numbers)),
            before,
        )
        for layer, choices, before in zip(graph.layers, options, sizes, strict=True)
    ]
    for key, layer, choices in zip(keys, graph.layers, options, strict=True):
        if key not in nodes:
            nodes[key] = _node(cost, layer, levels, choices, key[3])
            if relaxed:
                least = nodes[key][0].reshape(-1, len(choices[0])).min(axis=0)
                nodes[key] = (least, nodes[key][1])
    made = [numbers.setdefault((key[0], key[2]), len(numbers)) for key in keys]
    read = [numbers.setdefault(key, len(numbers)) for key in keys]
    pairs = [(made[one.producer], read[one.consumer], one.content, one.operand) for one in graph.tensors]
    found = []
    for tensor, pair in zip(graph.tensors, pairs, strict=True):
        ends = (tensor.producer, tensor.consumer)
        if pair not in edges:
            choices_of_both = (options[ends[0]], options[ends[1]])
            left = [own.read_at(tensor.operand) for own in nodes[keys[ends[1]]][1]]
            edges[pair] = _terms(cost, tensor, levels, graph.ends(tensor), choices_of_both, left)
            if relaxed:
                edges[pair] = tuple(term.min(axis=1, keepdims=True) for term in edges[pair])
        found.append(Edge(source=ends[0], target=ends[1], terms=edges[pair]))
    return CostGraph(nodes=tuple(nodes[key][0] for key in keys), edges=tuple(found))


def _node(
    cost: Cost, layer: PlanNode, levels: Sequence[Level], options: tuple[Options, ...], sizes: LocalSizes
) -> tuple[Costs, list[LocalSizes]]:
    """Return a layer's cost vector over tuples of choices, and its sizes above each level."""
    total, left = None, []
    for level, choices in zip(levels, options, strict=True):
        left.append(sizes)
        added = reduce(np.add, cost.layer_costs(level, layer, choices, sizes).values()).reshape(-1)
        total = added if total is None else (total.repeat(len(choices)) + added)
        sizes = sizes.divided(layer.nest, choices, level.ways) if level is not levels[-1] else sizes
    return np.zeros(1) if total is None else total, left


def _terms(
    cost: Cost,
    tensor: Tensor,
    levels: Sequence[Level],
    ends: tuple[PlanNode, PlanNode],
    options: tuple[tuple[Options, ...], tuple[Options, ...]],
    left: list[LocalSizes],
) -> tuple[Costs, ...]:
    """Return the term of each level in a tensor's cost matrix over pairs of tuples."""
    return tuple(
        cost.tensor_costs(level, tensor, ends, (here, there), sizes)
        for level, here, there, sizes in zip(levels, *options, left, strict=True)
    )
