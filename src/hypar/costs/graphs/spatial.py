"""Cuts of height and width, left out where a cut of the batch in their place never costs more: under ``paper``.

Put the batch in the place of both in every layer at once. It leaves the same part of every tensor, so that each level
below costs as much as before; and no layer and no two layers cost more at a level. Rows beside borders cost more the
deeper the cuts, and never less than at the outermost level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.costs.graphs.tables import Tables
from hypar.sharding.amounts.above import outermost
from hypar.sharding.dims import SPATIAL
from hypar.sharding.levels import TENSORS, WHOLE_LAYER
from hypar.sharding.placement import WHOLE, cut, simple

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from hypar.costs.base import Cost
    from hypar.network.nodes import PlanGraph
    from hypar.sharding.levels import Level
    from hypar.sharding.placement import Choice, Options

BATCH = "batch"


def in_place_of(choice: Choice, ways: int) -> Choice:
    """Return a choice with the batch in the place of height and width."""
    return cut(BATCH, ways) if {*SPATIAL} & {*choice.divided} else choice


def without_spatial(
    cost: Cost, graph: PlanGraph, levels: Sequence[Level], options: Sequence[tuple[Options, ...]]
) -> tuple[tuple[Options, ...], ...]:
    """Return the options without cuts of height and width; all of them where these may cost less.

    Args:
        cost: the cost, as papers count it.
        graph: the layers.
        levels: the levels.
        options: for each layer, the options at each level.
    """
    kept = tuple(
        tuple(
            tuple(choice for choice in own if in_place_of(choice, level.ways) == choice)
            for own, level in zip(at_layer, levels, strict=True)
        )
        for at_layer in options
    )
    if kept == tuple(options) or cost.counts_work or cost.unit != "bytes":
        return tuple(options)
    distinct: dict[Hashable, tuple[Level, list[Options]]] = {}
    for level in levels:
        at_level = [at_layer[level.index] for at_layer in options]
        distinct.setdefault((level.ways, tuple(at_level)), (level, at_level))
    pays = all(_never_dearer(cost, graph, *one) for one in distinct.values())
    return kept if pays else tuple(options)


def _never_dearer(cost: Cost, graph: PlanGraph, level: Level, options: Sequence[Options]) -> bool:
    """Return whether the batch costs no more at a level, wherever it takes the place of height and width."""
    places: dict[Options, list[int]] = {}
    for own in dict.fromkeys(options):
        instead = [in_place_of(choice, level.ways) for choice in own]
        if not all(simple(choice, level.ways) for choice in own if choice != WHOLE) or not {*instead} <= {
            *own
        }:
            return False
        places[own] = [own.index(choice) for choice in instead]
    for layer, own in zip(graph.layers, options, strict=True):
        left = WHOLE_LAYER.divided(layer.nest, own, level.ways).fractions[[*range(len(TENSORS)), -1]]
        if (left != left[:, places[own]]).any():
            return False
    above = outermost(graph, cost.convention)
    problem = Tables(cost, graph, [level], [(own,) for own in options], above).built()
    if any((costs < costs[places[own]]).any() for costs, own in zip(problem.nodes, options, strict=True)):
        return False
    return not any(
        (edge.costs < edge.costs[np.ix_(places[options[edge.source]], places[options[edge.target]])]).any()
        for edge in problem.edges
    )
