"""The remains of each graph after DeePa's two eliminations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.costs.graphs.paper import structure
from hypar.sharding.space import parse_space
from hypar.solve.elimination.order import trace
from hypar.solve.elimination.rules import reduced
from hypar.studies.page import Section
from hypar.studies.sections.deepa.plans import SPACE, WAYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.graph import LayerGraph

SECONDS = (0.7, 1.1, 4.8)
"""Published seconds of the searches for AlexNet, VGG-16 and Inception-v3, measuring included (section 7.1)."""


def eliminations(graphs: Mapping[str, LayerGraph]) -> Section:
    """Compare the nodes that the two rules leave of each graph."""
    rows, space = [], parse_space(SPACE)
    for (name, graph), seconds in zip(graphs.items(), SECONDS, strict=True):
        options = [(space.choices(layer, WAYS, idle=True),) for layer in graph.operators.layers]
        nodes = structure(graph.operators, options)
        rules, order = reduced(nodes), trace(nodes)
        kinds = [step.kind for step in rules.steps]
        numbers = (len(nodes.sizes), len(nodes.links), kinds.count("node"), kinds.count("edge"))
        largest = max(nodes.sizes)
        rows.append(
            (
                name,
                *map(str, numbers),
                str(len(rules.nodes)),
                str(largest),
                str(order.width),
                f"{order.largest:,}",
                f"{seconds}",
            )
        )
    return Section(
        title="Search: what the two rules leave",
        text=(
            "Section 4. Node and edge elimination leave two nodes of each graph, as published, and Inception-v3 has"
            f" the published 120 nodes. The search took the paper the seconds of the last column on {WAYS} devices"
            " with measuring the layers, and about 100 ms for Inception-v3 without; how long it takes here is in the"
            " benchmarks, as a page that is the same everywhere can hold no time of ours."
        ),
        heads=("network", "nodes", "edges", "node eliminations", "edge eliminations", "nodes left",
               "most choices of a node", "width", "largest table", "seconds, published"),
        rows=tuple(rows),
    )  # fmt: skip
