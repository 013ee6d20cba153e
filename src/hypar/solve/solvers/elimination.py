"""Elimination: nodes leave the graph one by one, their optimum folded into their neighbours.

Idea: DeePa (2018), node and edge elimination, generalised to variable elimination, the "min-sum" form of
bucket elimination (Dechter, Artificial Intelligence 113, 1999). Parallel edges are added up (edge
elimination). A node that leaves takes all the costs that touch it along; what remains is a table over
its neighbours, ``rest[y...] = min over x of (sum of its costs at x, y...)``: a vector where it had one
neighbour (leaf elimination), an edge where it had two (node elimination), a larger table otherwise.
Undoing the eliminations in reverse gives every node its choice. Where the work is large, choices that no
optimum takes are dropped first.

Order: min-fill, as ``hypar.reduction`` has it.
Cost: for each node the product of its neighbours' numbers of choices times its own, or times its digits
where one of its edges is a sum of terms.
Guarantee: exact on any graph; the tables it needs are known beforehand and refused past the limits. Ties go from the
last node back to the first declared choice, as in every exact solver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.solve.cost_graph import Solution
from hypar.solve.elimination.dominance import undominated
from hypar.solve.elimination.order import trace
from hypar.solve.elimination.ties import eliminated
from hypar.solve.solvers.base import Solver, Tables, require_tables

if TYPE_CHECKING:
    from hypar.solve.cost_graph import CostGraph, Structure


DROPPING_PAYS = 128
"""Table entries computed for each of the graph, from which dominated choices are looked for beforehand."""


class Elimination:
    """Exact on any graph whose tables fit."""

    exact = True

    def tables(self, structure: Structure) -> Tables:
        """Follow the order without costs."""
        found = trace(structure)
        # Every table is kept for undoing; beside it the sum that it is the least of is held.
        stored = sum(step.entries for step in found.steps)
        widest = max((step.summed for step in found.steps), default=0)
        return Tables(
            stored=stored + widest + structure.entries,
            work=sum(step.work for step in found.steps) + sum(structure.sizes),
            width=found.width,
            complete=found.complete,
        )

    def solve(self, problem: CostGraph) -> Solution:
        """Eliminate every node, then undo."""
        structure = problem.structure
        tables = self.tables(structure)
        require_tables("elimination", tables)
        exact = problem.summable()
        if tables.work < DROPPING_PAYS * structure.entries:
            assignment = eliminated(exact, trace(structure).steps)
        else:
            left = undominated(exact)
            assignment = left.original(eliminated(left.problem, trace(left.problem.structure).steps))
        return Solution(assignment=assignment, cost=problem.cost(assignment))


plugin: Solver = Elimination()
