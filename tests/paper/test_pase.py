"""PaSE (IPDPS 2021): the plans of its published space and cost, priced by hypar's volume, against hypar's own.

Its space: every dim of a layer may be divided, by factors whose product is the number of devices; kernels are not divided here. Its cost, per device and in
multiply-accumulates: those of three phases; 2 n (p - 1) / p words for each all-reduce of n words by p devices; the rows beside borders; and twice what a device
needs of a tensor and does not have. Its plans are priced with devices numbered through; hypar's are proven over all grids and
numberings, so no other numbering of PaSE's would be cheaper. A word counts as the operations that a device does meanwhile (P100, 6.25 GB/s).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypar import load_model, plan_model
from hypar.planning.question import ask, costs_by_level
from hypar.planning.resolved import Resolved
from hypar.sharding.space import parse_space
from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge
from hypar.solve.solvers.base import load_solver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import PlanNode, Tensor
    from hypar.ops.nest import Nest
    from hypar.sharding.placement import Options

    Table = NDArray[np.float64]

WORD = 10.6e12 / (6.25e9 / 8)
"""Operations in the time of a word."""


def degrees_of(nest: Nest, options: Options) -> dict[str, Table]:
    """The degree of each dim in each option."""
    return {dim: np.array([float(choice.degree(dim)) for choice in options]) for dim in nest.sizes}


def inside(layer: PlanNode, options: Options) -> Table:
    """The cost of each option of a layer."""
    nest = layer.nest
    degrees = degrees_of(nest, options)
    working = np.prod([*degrees.values()], axis=0)
    if not layer.weighted:
        return np.asarray(nest.input_elements / working)
    costs = 3 * nest.macs / working
    for tensor in ("input", "weight", "output"):
        own = np.prod([degrees[dim] for dim in nest.names[tensor] if dim in degrees], axis=0)
        words, terms = nest.elements(tensor) / own, working / own
        costs = costs + WORD * 2 * words * (terms - 1) / terms
    rows = np.ones(len(options))
    for dim, window in nest.windows.items():
        size = nest.input_sizes[dim] / degrees[dim]
        rows = rows * (1 + np.where(degrees[dim] > 1, window.kernel / size, 0))
    read = np.prod([degrees[dim] for dim in nest.names["input"]], axis=0)
    return np.asarray(costs + WORD * nest.input_elements / read * (rows - 1))


def between(content: Tensor, ends: tuple[Nest, Nest], options: tuple[Options, Options]) -> Table:
    """The cost of each pair of options of two layers: twice what a device needs and does not have."""
    names = [
        {word: dim for dim, word in own.items()} for own in (ends[0].names["output"], ends[1].names["input"])
    ]
    need, common = (
        np.full((1, len(options[1])), float(content.elements)),
        np.full((1, 1), float(content.elements)),
    )
    for word in ("batch", *(dim for dim, _ in content.shape)):
        made, read = (
            degrees_of(nest, own).get(of.get(word, ""), np.ones(len(own)))
            for nest, own, of in zip(ends, options, names, strict=True)
        )
        need = need / read
        common = common / np.maximum(made[:, None], read)
    return np.asarray(WORD * 2 * np.maximum(need - common, 0))


def published(graph: LayerGraph, ways: int) -> Sequence[Options]:
    """The plan of least cost as PaSE counts it."""
    space, nodes = parse_space("all divisors"), graph.contracted
    options = [space.choices(layer, ways) for layer in nodes.layers]
    edges = [
        Edge(
            source=one.producer,
            target=one.consumer,
            terms=(
                between(
                    one,
                    (nodes.layers[one.producer].nest, nodes.layers[one.consumer].nest),
                    (options[one.producer], options[one.consumer]),
                )[:, None, :],
            ),
        )
        for one in nodes.tensors
    ]
    costs = tuple(inside(layer, own) for layer, own in zip(nodes.layers, options, strict=True))
    found = load_solver("elimination").solve(CostGraph(nodes=costs, edges=tuple(edges)))
    return [(own[at],) for own, at in zip(options, found.assignment, strict=True)]


CASES = [("alexnet", 16), ("vgg16", 16)]
LONG = [
    (model, ways)
    for model in ("alexnet", "vgg16", "resnet18", "resnet50", "inception-v3")
    for ways in (16, 64)
]


@pytest.mark.parametrize(
    ("model", "ways"),
    [*CASES, *(pytest.param(*one, marks=pytest.mark.slow) for one in LONG if one not in CASES)],
)
def test_hypars_plan_moves_no_more_than_pases(model: str, ways: int) -> None:
    graph = load_model(model)
    plan = plan_model(graph, array=[ways], strategy="optimal", space="all divisors")
    assert plan.bounds in (None, [plan.cost.value])
    question = ask(Resolved.of(plan), graph)
    theirs = math.fsum(map(math.fsum, costs_by_level(question, tuple(published(graph, ways)))))
    assert plan.cost.value <= theirs
