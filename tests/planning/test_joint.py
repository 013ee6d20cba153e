"""The joint search: optima, bounds, ties, and where no exact solver fits."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from hypar import load_model, plan_model
from hypar.costs.graphs import tables as cost_tables
from hypar.errors import TableLimitError
from hypar.planning.question import Question, load_search
from hypar.planning.searches import named
from hypar.solve.cost_graph import CostGraph, Solution, Structure
from hypar.solve.solvers.base import Tables
from tests.benchmarks.fresh import fresh
from tests.conventions import THREE_TYPES, cost_of, network, question_of
from tests.effort import crossed

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
    outer = question.tables(0, 1, whole).built()
    least = math.inf
    for picks in itertools.product(*(range(costs.size) for costs in outer.nodes)):
        chosen = [options[0][pick] for options, pick in zip(question.options, picks, strict=True)]
        inside = whole.below(question.graph, [(choice,) for choice in chosen], question.levels[0].ways)
        inner = question.tables(1, 2, inside).built()
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
        inside = question.outermost().below(graph, [(choice,) for choice in chosen], ways)
        exact = question.tables(1, 2, inside).built()
        for low, own in zip(bound.nodes, exact.nodes, strict=True):
            assert (low <= own + 1e-6).all()
        for below, edge in zip(bound.edges, exact.edges, strict=True):
            assert np.all(sum(below.terms) <= sum(edge.terms) + 1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_the_joint_optimum_is_the_cheapest_of_all_plans(seed: int) -> None:
    rng = random.Random(seed)
    question = chain(rng, 2) if seed % 3 else branch(rng)
    found = named.jointly(question)
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
    monkeypatch.setattr(named, "NARROWING_PAYS", math.inf)
    whole = named.jointly(question)
    monkeypatch.setattr(named, "NARROWING_PAYS", 0)
    narrowed = named.jointly(question)
    assert narrowed.choices == whole.choices
    assert narrowed.costs == whole.costs


# Where no exact solver fits


def test_a_plan_without_proof_is_never_dearer_than_the_greedy_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Poor:
        """Bounded, with the dearest choice of every layer."""

        exact = False

        def tables(self, _: Structure) -> Tables:
            return Tables(stored=0, work=0)

        def solve(self, problem: CostGraph) -> Solution:
            poor = tuple(int(costs.argmax()) for costs in problem.nodes)
            return Solution(assignment=poor, cost=problem.cost(poor), bound=0.0)

    asked = question_of(graph_of("lenet-c"), (2, 2), "paper")
    greedy = load_search("greedy").run(asked)
    monkeypatch.setattr(Question, "pick_solver", lambda self, *_: (self.solver or "bounded", Poor()))
    monkeypatch.setattr(named, "greedy", lambda _: replace(greedy, solver="bounded", exact=False, bounds=()))
    assert named.jointly(replace(asked, solver="bounded")).choices == greedy.choices


def test_where_too_many_pairs_are_left_the_levels_are_planned_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Rows beside a border depend on the order of levels, so that counts are no help.
    asked: dict[str, Any] = {
        "levels": 4,
        "strategy": "optimal",
        "convention": "moved",
        "pins": "conv1@H1=height",
    }
    proven = plan_model("alexnet", **asked)
    monkeypatch.setattr(cost_tables, "MOST_PAIRS", 1000)
    plan = plan_model("alexnet", **asked)
    assert plan.claim.startswith("not proven optimal, but the optimum is at most")
    assert plan.bounds is not None
    assert plan.bounds[0] <= proven.cost.value <= plan.cost.value
    said = r"^search 'joint': found [\d,]+ pairs of choices over all levels; allowed: 1,000$"
    with pytest.raises(TableLimitError, match=said):
        plan_model("alexnet", solver="elimination", **asked)


@pytest.mark.slow
def test_device_groups_are_searched_within_the_memory() -> None:
    assert fresh("lenet-c", hardware="tpu-v2-v3", strategy="optimal").MB < 1000
