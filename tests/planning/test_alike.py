"""Cost graphs of one level against the costs of each layer and each tensor alone."""

from __future__ import annotations

import random
from functools import reduce
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from hypar.costs.graphs.moved import Builder
from hypar.costs.graphs.single import SingleLevel
from hypar.machine.load import load_machine
from hypar.sharding.amounts.above import below_level, outermost
from tests.conventions import THREE_TYPES, question_of, random_network

MACHINES = {"volume": None, "accpar": load_machine("tpu-v3"), "time": load_machine("hmc")}

if TYPE_CHECKING:
    from hypar.costs.base import MovingCost
    from hypar.planning.searches.base import Question
    from hypar.sharding.levels import LocalSizes


def below(question: Question, seed: int) -> tuple[list[LocalSizes], list[LocalSizes]]:
    """Return the sizes above both levels, with random choices at the first."""
    sizes, rng = question.outermost(), random.Random(seed)
    chosen = [rng.choice(at_layer[0]) for at_layer in question.options]
    return sizes, question.below(sizes, chosen, question.levels[0].ways)


@pytest.mark.parametrize("cost", ["volume", "accpar", "time"])
@pytest.mark.parametrize("space", [THREE_TYPES, "all"])
def test_layers_that_are_counted_together_cost_what_each_does_alone(cost: str, space: str) -> None:
    for seed in range(6):
        question = question_of(
            random_network(random.Random(seed)),
            (2, 2),
            "paper",
            space=space,
            cost=cost,
            machine=MACHINES[cost],
        )
        for level, sizes in zip(question.levels, below(question, seed), strict=True):
            problem = question.cost_graph(level.index, level.index + 1, sizes)
            graph, options = question.graph, [own[level.index] for own in question.options]
            for node, costs in enumerate(problem.nodes):
                items = question.cost.layer_costs(level, graph.layers[node], options[node], sizes[node])
                assert reduce(np.add, items.values()).reshape(-1).tolist() == costs.tolist()
            for tensor, edge in zip(graph.tensors, problem.edges, strict=True):
                ends = (tensor.producer, tensor.consumer)
                alone = question.cost.tensor_costs(
                    level,
                    tensor,
                    (graph.layers[ends[0]], graph.layers[ends[1]]),
                    (options[ends[0]], options[ends[1]]),
                    sizes[ends[1]],
                )
                assert np.array_equal(edge.terms[0], alone)


@pytest.mark.parametrize("convention", ["moved", "fused"])
@pytest.mark.parametrize("cost", ["volume", "time"])
@pytest.mark.parametrize("space", [THREE_TYPES, "all"])
def test_one_level_costs_what_it_does_among_several(convention: str, cost: str, space: str) -> None:
    for seed in range(6):
        question = question_of(
            random_network(random.Random(seed)),
            (2, 2),
            convention,
            space=space,
            cost=cost,
            machine=MACHINES[cost],
        )
        counted, above = cast("MovingCost", question.cost), outermost(question.graph, convention)
        first, second = ([own[index] for own in question.options] for index in range(2))
        chosen = [(random.Random(seed).choice(own),) for own in first]
        under = below_level(question.graph, above, chosen, 2)
        for level, options, state in zip(question.levels, (first, second), (above, under), strict=True):
            if cost == "volume" and level.index:
                break  # several levels of equal prices are counted in one go, from the outermost
            single = SingleLevel(counted, question.graph, level, options, state).built()
            whole = Builder(counted, question.graph, [level], [(own,) for own in options], state).built()
            for one, other in zip(single.nodes, whole.nodes, strict=True):
                assert one.tolist() == other.tolist()
            for edge, same in zip(single.edges, whole.edges, strict=True):
                assert np.allclose(edge.costs, same.costs, rtol=1e-12)
