"""Search over all levels at once by counts: how often a layer takes each dim, not in which order.

Idea: where every level multiplies what the others leave, a plan's cost does not depend on the order of its levels, and
two layers meet best in a closed form of their counts. Recurrence: a least cost for each state of counts, from layer to layer;
in a block of branches also for each cell of the levels that one layer, the pivot, divides alike.
Cost: states of counts, C(L + d - 1, d - 1) for L equal levels of d dims, and their pairs.
Guarantee: the optimum where the bound closes, otherwise a plan and the bound. Ties are broken by the plan found first.
Reference: HyPar (HPCA 2019) has the greedy search over levels that this one replaces.

It needs more than a cost graph: the joint search builds its problem from layers and levels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from hypar.errors import ProblemError

if TYPE_CHECKING:
    from hypar.solve.cost_graph import CostGraph, Structure
    from hypar.solve.solvers.base import Solver


class Counts:
    """The name of a search over levels, which takes no cost graph: that does not say which choices are orders of others."""

    exact = False

    def tables(self, structure: Structure) -> None:
        """Return None: no cost graph is supported."""

    def solve(self, problem: CostGraph) -> NoReturn:  # noqa: ARG002 (the solvers' interface)
        """Refuse a cost graph.

        Raises:
            ProblemError: always.
        """
        raise ProblemError(
            "solver 'counts': found costs that depend on the order of levels, or one level at a time; allowed: cost "
            "'volume', or 'time' or 'accpar' on a machine whose outer levels are no faster than inner ones and where all "
            "collectives of a level take as long, by 'moved' or 'fused', --search joint, one dim a level"
        )


plugin: Solver = Counts()
