"""Searches under ``moved`` and ``fused``: optima, bounds, ties, and the known optima of networks."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypar import load_machine, load_model
from hypar.planning.question import Question, load_search
from hypar.planning.searches import joint
from tests.conventions import THREE_TYPES, cost_of, drawn, network, question_of
from tests.effort import crossed

if TYPE_CHECKING:
    from hypar.sharding.placement import Options

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


@pytest.mark.parametrize("seed", range(12))
def test_every_greedy_level_is_the_cheapest_below_those_above(seed: int) -> None:
    rng = random.Random(seed)
    question = chain(rng, 3) if seed % 3 else branch(rng)
    found = load_search("greedy").run(question)
    above: tuple[Options, ...] = ((),) * len(question.options)
    for index in range(len(question.levels)):
        here = [at_layer[index] for at_layer in question.options]
        first = replace(question, levels=question.levels[: index + 1])
        plans = [
            tuple((*own, choice) for own, choice in zip(above, level, strict=True))
            for level in itertools.product(*here)
        ]
        above = tuple(own[: index + 1] for own in found.choices)
        assert cost_of(first, above) == pytest.approx(min(cost_of(first, plan) for plan in plans), rel=1e-9)


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


@pytest.mark.usefixtures("more_solvers")
@crossed(
    {
        "cost": ["time", "accpar"],
        "convention": BY_PRODUCTS,
    }
)
def test_the_joint_optimum_of_seconds_is_that_of_counting_everything_out(cost: str, convention: str) -> None:
    machine = load_machine("hmc", {"latency": "1 us"})
    asked = question_of(graph_of("sfc"), (2, 2), convention, cost=cost, machine=machine)
    best = joint.run(replace(asked, solver="exhaustive"))
    assert total(joint.run(asked).costs) == pytest.approx(total(best.costs), rel=1e-9)
    rng = random.Random(cost + convention)
    assert all(cost_of(asked, drawn(asked, rng)) >= total(best.costs) * (1 - 1e-9) for _ in range(200))


@pytest.mark.parametrize(
    ("model", "paper", "that_plan", "moved", "fused"),
    [
        ("sfc", 0.255, 0.260, 0.252, 0.202),
        ("alexnet", 0.646, 0.651, 0.643, 0.617),
        ("vgg16", 2.037, 2.221, 2.036, 1.993),
    ],
)
def test_the_optima_of_four_levels(
    model: str, paper: float, that_plan: float, moved: float, fused: float
) -> None:
    asked = {
        convention: question_of(graph_of(model), (2,) * 4, convention)
        for convention in ("paper", "moved", "fused")
    }
    best = {convention: joint.run(question) for convention, question in asked.items()}
    found = [total(best[convention].costs) for convention in ("paper", "moved", "fused")]
    found.insert(1, cost_of(asked["moved"], best["paper"].choices))
    assert [round(cost / 1e9, 3) for cost in found] == [paper, that_plan, moved, fused]
