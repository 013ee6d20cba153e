"""The solver `exhaustive` of tests, which the exact solvers equal.

Exhaustive search counts every assignment out. Idea: the sum of all node vectors and edge matrices, broadcast to one table with an axis for each node.
Cost: the product of all numbers of choices, for each node and edge.
Guarantee: exact on any graph. Ties go from the last node back to the first declared choice, as in every exact solver.
"""

import math
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest

from hypar import registry
from hypar.errors import ProblemError
from hypar.solve.cost_graph import CostGraph, Solution, Structure
from hypar.solve.solvers.base import Solver, Tables, require_tables

MOST_NODES = 32
"""Largest number of axes of an array in numpy 1."""


class Exhaustive:
    exact = True

    def tables(self, structure: Structure) -> Tables | None:
        if len(structure.sizes) > MOST_NODES:
            return None
        entries = math.prod(structure.sizes)
        return Tables(
            stored=entries + structure.entries, work=entries * (len(structure.sizes) + len(structure.links))
        )

    def solve(self, problem: CostGraph) -> Solution:
        sizes = problem.structure.sizes
        tables = self.tables(problem.structure)
        if tables is None:
            raise ProblemError(f"solver 'exhaustive': found {len(sizes)} nodes; allowed: up to {MOST_NODES}")
        require_tables("exhaustive", tables)
        exact = problem.summable()
        # The last node has the first axis, so that the first least entry is the one that the tie-break picks.
        kept = [node for node in reversed(range(len(sizes))) if sizes[node] > 1]
        total = np.zeros([sizes[node] for node in kept])
        for node, costs in enumerate(exact.nodes):
            total += costs.reshape([size if here == node else 1 for here, size in _dims(kept, sizes)])
        for edge in exact.edges:
            low, high = sorted((edge.source, edge.target))
            costs = edge.costs if edge.source == high else edge.costs.T
            total += costs.reshape([size if here in (low, high) else 1 for here, size in _dims(kept, sizes)])
        found = dict(zip(kept, np.unravel_index(int(total.argmin()), total.shape), strict=True))
        assignment = tuple(int(found.get(node, 0)) for node in range(len(sizes)))
        return Solution(assignment=assignment, cost=problem.cost(assignment))


def _dims(kept: list[int], sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(node, sizes[node]) for node in kept]


EXHAUSTIVE: Solver = Exhaustive()


@pytest.fixture
def more_solvers() -> Iterator[None]:
    """Let plans name the solver of this module, as one of another package."""
    points = EntryPoints([EntryPoint("exhaustive", f"{__name__}:EXHAUSTIVE", "hypar.solvers")])
    caches = (registry.plugin_names, registry.load_plugin)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(registry, "entry_points", lambda group: points.select(group=f"hypar.{group}"))
        for cached in caches:
            cached.cache_clear()
        yield
    for cached in caches:
        cached.cache_clear()
