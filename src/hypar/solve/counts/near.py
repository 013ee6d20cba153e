"""The states of layers that may be part of a plan of a known cost, by the costs of layers alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.solve.counts.forms import node_costs
from hypar.solve.counts.states import states_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.solve.counts.forms import CountGraph, Numbers
    from hypar.solve.edge import Costs


def state_costs(graph: CountGraph, node: int, states: Numbers) -> Costs:
    """Return the costs of some states of a layer."""
    costs, own = node_costs(graph.nodes[node], states, graph.cells), graph.own_of(node)
    return costs if own is None else costs + own.of(states)


def floor_of(graph: CountGraph) -> float:
    """Return the least costs of all layers alone, which is a bound where no tensor costs less than 0."""
    known: dict[object, float] = {}
    total = 0.0
    for node, terms in enumerate(graph.nodes):
        key = (terms, id(graph.own_of(node)), graph.offered[node])
        if key not in known:
            known[key] = float(state_costs(graph, node, states_of(graph, node)).min())
        total += known[key]
    return max(0.0, total)


def near(graph: CountGraph, states: Sequence[Numbers], known: float) -> list[Numbers]:
    """Return the states that cost at most a known amount with the least of all other layers; no tensor costs less than 0.

    Equal states of equal layers stay one object.
    """
    costs: dict[object, Costs] = {}
    keys = []
    for node, own in enumerate(states):
        keys.append((graph.nodes[node], id(graph.own_of(node)), id(own)))
        if keys[-1] not in costs:
            costs[keys[-1]] = state_costs(graph, node, own)
    room = known - math.fsum(float(costs[key].min()) for key in keys)
    kept: dict[object, Numbers] = {}
    for key, own in zip(keys, states, strict=True):
        if key not in kept:
            kept[key] = own[costs[key] - costs[key].min() <= room]
    return [kept[key] for key in keys]
