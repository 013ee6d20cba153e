"""How long solvers take by themselves. Run by hand: ``pytest tests/benchmarks -m slow --benchmark-enable -n 0``."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge, min_plus
from hypar.solve.solvers.base import load_solver
from tests.problems import random_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

CHOICES = 210
"""Ways to divide four dims over up to 64 devices, by powers of two."""


def inception() -> CostGraph:
    """Eight nodes, then eleven modules of four branches with one to three nodes; nothing is shared."""
    pairs = [(node, node + 1) for node in range(7)]
    size = 8
    for _ in range(11):
        fork, join = size - 1, size + 8
        for length in (1, 2, 3, 2):
            pairs += itertools.pairwise([fork, *range(size, size + length), join])
            size += length
        pairs.append((join, join + 1))
        size = join + 2
    return random_problem(np.random.default_rng(0), [CHOICES] * size, pairs, 10**6)


def residual() -> CostGraph:
    """Fifty equal blocks of three nodes and a join, which share their arrays."""
    generator = np.random.default_rng(0)
    costs = [generator.random(CHOICES) for _ in range(4)]
    terms = [generator.random((CHOICES, 1, CHOICES)) for _ in range(5)]
    edges = [
        Edge(source=at + source, target=at + target, terms=(term,))
        for at in range(0, 200, 4)
        for (source, target), term in zip([(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], terms, strict=True)
    ]
    return CostGraph(nodes=(costs[0], *[costs[1], costs[2], costs[3], costs[0]] * 50), edges=tuple(edges))


def test_min_plus(benchmark: BenchmarkFixture) -> None:
    """Meant to stay under 8 ms."""
    table = np.random.default_rng(0).random((CHOICES, CHOICES))
    assert benchmark(min_plus, table, table).shape == (CHOICES, CHOICES)


@pytest.mark.parametrize("make", [inception, residual])
@pytest.mark.parametrize("solver", ["elimination", "bounded"])
def test_solver(benchmark: BenchmarkFixture, make: Callable[[], CostGraph], solver: str) -> None:
    """Elimination is meant to stay under 500 ms, and 60 ms where blocks are equal."""
    problem = make()
    assert benchmark(load_solver(solver).solve, problem).cost > 0


def test_bounded_where_each_node_is_joined_to_each(benchmark: BenchmarkFixture) -> None:
    """Twelve nodes of forty choices, past the tables of elimination."""
    pairs = list(itertools.combinations(range(12), 2))
    problem = random_problem(np.random.default_rng(0), [40] * 12, pairs, 1000)
    assert benchmark(load_solver("bounded").solve, problem).bound > 0
