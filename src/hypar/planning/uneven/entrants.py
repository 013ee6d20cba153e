"""Known strategies that compete with a plan for a heterogeneous machine, as they do on identical devices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.costs.base import load_cost
from hypar.errors import MemoryLimitError, OptionError, TableLimitError
from hypar.planning.baselines import baseline_request
from hypar.planning.strategies.base import load_strategy
from hypar.planning.uneven.planner import Planner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.network.graph import LayerGraph
    from hypar.planning.nodes.leaf import Node
    from hypar.planning.nodes.levels import LevelPlanner


def entrants_of_groups(planner: LevelPlanner, graph: LayerGraph, found: Node) -> Iterator[tuple[str, Node]]:  # noqa: ARG001 (shares are found anew)
    """Yield the baselines that can be planned: those within the space, or all if no space was requested."""
    request, nodes = planner.request, graph.nodes(planner.request.graph)
    for name in request.baselines:
        named = load_strategy(name)
        own = baseline_request(request, name)
        cost = named.heterogeneous_cost or named.cost
        shares = named.shares if load_cost(cost, {}).slowest else "equal"
        own = replace(own, cost=cost, shares=shares, solver=None)
        try:
            node = Planner.of(own, nodes, planner.pins, planner.element_bytes).planned(nodes)
        except (MemoryLimitError, OptionError, TableLimitError):
            continue
        if request.beyond_space or planner.within(node):
            yield name, node
