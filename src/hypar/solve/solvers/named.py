"""Exact solvers by elimination, and the name of the search over levels.

*Elimination:* node and edge elimination of DeePa (2018), generalised to the "min-sum" form of bucket elimination (Dechter, Artificial
Intelligence 113, 1999). A node that leaves takes all costs that involve it along and leaves a table over its neighbours,
``rest[y...] = min over x of (sum of its costs at x, y...)``. Order: min-fill, see ``hypar.solve.order``.
Cost: for each node the product of its neighbours' numbers of choices, times its own number of choices, or times its
digits if one of its edges is a sum of terms. Guarantee: exact on any graph; tables past the limits are refused.
Ties go from the last node back to the first declared choice, as in every exact solver.

*Chain:* the same where every component is a path through nodes of rising number: HyPar (HPCA 2019), Algorithm 1, for any number of choices.
Recurrence: ``best[i][y] = node[i][y] + min over x of (best[i - 1][x] + edge[i - 1][x, y])``. Cost: one minimisation over every edge.

*Counts:* the joint search builds its problem from layers and levels, see ``hypar.solve.counts``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from hypar.errors import ProblemError
from hypar.solve.cost_graph import Solution
from hypar.solve.minsum import optimum
from hypar.solve.solvers.base import Solver, Tables, require_tables, tables_of

if TYPE_CHECKING:
    from hypar.solve.cost_graph import CostGraph, Structure


class Elimination:
    """An exact solver of any graph whose tables fit."""

    name, exact = "elimination", True

    def tables(self, structure: Structure) -> Tables | None:
        """Return the size of the tables by tracing the order without costs."""
        return tables_of(structure)

    def solve(self, problem: CostGraph) -> Solution:
        """Eliminate every node, then assign choices in reverse."""
        structure = problem.structure
        tables = self.tables(structure)
        if tables is None:
            raise ProblemError(f"solver {self.name!r}: the graph has a branch or a cycle; allowed: paths")
        require_tables(self.name, tables)
        assignment = optimum(problem)
        return Solution(assignment=assignment, cost=problem.cost(assignment))


class Chain(Elimination):
    """The same of paths alone, in time linear in their length."""

    name = "chain"

    def tables(self, structure: Structure) -> Tables | None:
        """Return the size of the tables; None if the graph has a branch or a cycle."""
        return tables_of(structure)._replace(width=0) if _is_paths(structure) else None


class Counts:
    """The name of a search over levels, which takes no cost graph: that does not say which choices are orders of others."""

    exact = False

    def tables(self, structure: Structure) -> None:
        """Return None: no cost graph is supported."""

    def solve(self, problem: CostGraph) -> NoReturn:  # noqa: ARG002 (the solvers' interface)
        """Refuse a cost graph."""
        raise ProblemError(
            "solver 'counts': found costs that depend on the order of levels, or one level at a time; allowed: cost "
            "'volume', or 'time' or 'accpar' on a machine whose outer levels are no faster than inner ones and where all "
            "collectives of a level take as long, by 'moved' or 'fused', --search joint, one dim a level"
        )


def _is_paths(structure: Structure) -> bool:
    """Return whether every component is a path through nodes of rising number."""
    pairs = {(min(link[:2]), max(link[:2])) for link in structure.links}
    return len({low for low, _ in pairs}) == len({high for _, high in pairs}) == len(pairs)


plugins: dict[str, Solver] = {"chain": Chain(), "counts": Counts(), "elimination": Elimination()}
