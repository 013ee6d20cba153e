"""Searches under ``moved`` and ``fused``: optima, bounds, ties, and the known optima of networks."""

from __future__ import annotations

import itertools
import math
import random
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypar import load_model
from hypar.planning.question import Question
from hypar.planning.searches import joint
from tests.conventions import THREE_TYPES, cost_of, network, question_of
from tests.effort import crossed

if TYPE_CHECKING:
    pass

graph_of = cache(load_model)
BY_PRODUCTS = ("moved", "fused")


def total(costs: tuple[tuple[float, ...], ...]) -> float:
    return math.fsum(cost for at_level in costs for cost in at_level)


def chain(rng: random.Random, layers: int) -> Question:
    """Linear layers of random sizes."""
    lines = [f"{{op: input, channels: {rng.randint(1, 40)}}}"]
    lines += [f"{{name: fc{at}, op: linear, out_features: {rng.randint(1, 40)}}}" for at in range(layers)]
    convention = rng.choice(BY_PRODUCTS)
    return question_of(network(lines, rng.randint(1, 40)), (2, rng.choice([2, 3])), convention)


def branch(rng: random.Random) -> Question:
    """A branch that joins again."""
    lines = [
        f"{{op: input, channels: {rng.choice([2, 4])}, height: 6, width: 6}}",
        f"{{name: stem, op: conv, out_channels: {rng.choice([2, 8])}, kernel: 3, padding: 1}}",
        f"{{name: side, op: conv, out_channels: {rng.choice([2, 8])}, kernel: 3, padding: 1}}",
        "{name: join, op: concat, inputs: [stem, side]}",
    ]
    space = rng.choice([THREE_TYPES, "batch,in_channels,height"])
    return question_of(network(lines, rng.choice([2, 16])), (2, 2), rng.choice(BY_PRODUCTS), space=space)


def cheapest(question: Question) -> float:
    """Count out every plan of two levels: all choices of the outer level, and below each all of the inner one."""
    whole = question.outermost()
    outer = question.cost_graph(0, 1, whole)
    least = math.inf
    for picks in itertools.product(*(range(costs.size) for costs in outer.nodes)):
        chosen = [options[0][pick] for options, pick in zip(question.options, picks, strict=True)]
        inner = question.cost_graph(1, 2, question.below(whole, chosen, question.levels[0].ways))
        each = itertools.product(*(range(costs.size) for costs in inner.nodes))
        least = min(least, outer.cost(picks) + min(map(inner.cost, each)))
    return least


STRIDES = (
    "{op: input, channels: 4, height: 9, width: 9}",
    "{name: one, op: conv, out_channels: 8, kernel: 3, padding: 1}",
    "{name: two, op: conv, out_channels: 8, kernel: 1, stride: 2}",
    "{name: three, op: conv, out_channels: 4, kernel: 5, padding: 2, stride: 2}",
)


@pytest.mark.parametrize("convention", [*BY_PRODUCTS, "paper"])
def test_a_bound_of_an_inner_level_is_no_more_than_what_any_choices_above_leave(convention: str) -> None:
    """Rows that no window reads, and those that levels above have cut, are in no bound."""
    question = question_of(
        network(STRIDES, 8), (2, 2), convention, space="batch,in_channels,out_channels,height"
    )
    outer = [own[0] for own in question.options]
    graph, ways = question.graph, question.levels[0].ways
    bound = question.tables(1, 2, question.outermost().below(graph, outer, ways, least=True)).built()
    for chosen in itertools.product(*outer):
        exact = question.cost_graph(1, 2, question.below(question.outermost(), chosen, ways))
        for low, own in zip(bound.nodes, exact.nodes, strict=True):
            assert (low <= own + 1e-6).all()
        for below, edge in zip(bound.edges, exact.edges, strict=True):
            assert np.all(sum(below.terms) <= sum(edge.terms) + 1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_the_joint_optimum_is_the_cheapest_of_all_plans(seed: int) -> None:
    rng = random.Random(seed)
    question = chain(rng, 2) if seed % 3 else branch(rng)
    found = joint.run(question)
    assert found.exact
    assert total(found.costs) == pytest.approx(cost_of(question, found.choices), rel=1e-12)
    assert total(found.costs) == pytest.approx(cheapest(question), rel=1e-9)


@crossed(
    {
        "model": ["sfc", "lenet-c", "alexnet", "resnet18"],
        "space": [THREE_TYPES, "all"],
        "convention": BY_PRODUCTS,
    }
)
def test_leaving_tuples_out_changes_no_plan(
    model: str, space: str, convention: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = question_of(graph_of(model), (2, 2, 2), convention, space=space)
    monkeypatch.setattr(joint, "NARROWING_PAYS", math.inf)
    whole = joint.run(question)
    monkeypatch.setattr(joint, "NARROWING_PAYS", 0)
    narrowed = joint.run(question)
    assert narrowed.choices == whole.choices
    assert narrowed.costs == whole.costs
