"""Search all levels at once: the choice of a layer is a tuple with one choice for each level.

Where the order of levels does not matter, the search is by counts, of the solver ``counts``; otherwise it is a search over
tuples. Cost: one search over the product of the levels' choices. Guarantee: the optimum over all levels
together if the tables of an exact solver fit, or plan and bound meet; otherwise a plan that costs no more than the greedy one,
and a lower bound. If not even one vector for each layer fits, the plan is the greedy one, and the bound is the sum of the levels'
relaxed optima, in which every layer has the local sizes that make it cheapest. At its limits, or when it is interrupted, the
search answers with the best plan and the highest bound so far.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.activity import INTERRUPTIBLE, tell
from hypar.planning.searches.jointly.answers import Standing, better_of, level_by_level
from hypar.planning.searches.jointly.counts import COUNTS, by_counts
from hypar.planning.searches.jointly.tuples import MOST_TUPLES, by_tuples
from hypar.solve.cost_graph import CostGraph
from hypar.solve.limits import Budget, Cut, Limits, OutOfTime, timed
from hypar.solve.solvers.base import load_solver
from hypar.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.planning.question import Answer, Question, Search


class Joint:
    """The joint search over all levels."""

    claim = "optimal, all levels jointly,"
    at_once = True

    def run(self, question: Question) -> Answer:
        """Search one cost graph for all levels, as far as the limits allow."""
        limits = question.limits or Limits()
        budget, number = Budget(limits), 0
        best: Standing | None = None
        cut: Cut | None = None
        try:
            with timed(math.inf if question.limits is None else limits.seconds):
                for best in _standings(question, budget):
                    number += 1
                    _tell(question, best)
        except OutOfTime:
            cut = Cut("time", number)
        except KeyboardInterrupt:
            if not INTERRUPTIBLE.get():
                raise
            cut = Cut("interrupt", number)
        answer = (best or level_by_level(question)).answer(question)
        struck = not answer.exact and (budget.struck or cut is not None)
        return replace(answer, limits=limits, cut=cut) if struck else answer


def _standings(question: Question, budget: Budget) -> Iterator[Standing]:
    """Yield how far the search has come, each with no dearer a plan and no lower a bound than those before."""
    structure = question.structure(0, len(question.levels))
    counted = None
    for counted in by_counts(question, structure, budget):
        yield counted
    enough = question.solver == COUNTS or question.entered is not None or sum(structure.sizes) > MOST_TUPLES
    if counted is not None and (counted.exact or enough):
        return
    if question.solver == COUNTS:
        load_solver(COUNTS).solve(CostGraph(nodes=(), edges=()))
    question = question.without_spatial()
    structure = question.structure(0, len(question.levels))
    for found in by_tuples(question, structure, budget):
        yield found if counted is None else better_of(found, counted)


def _tell(question: Question, found: Standing) -> None:
    """Tell how far plan and bound are apart."""
    if found.exact or not found.bound:
        return
    both = (found.cost, found.bound)
    named = [format_bytes(own) if question.cost.unit == "bytes" else f"{own:.4g} s" for own in both]
    tell(f"best plan {named[0]}, bound {named[1]}, gap {1 - found.bound / found.cost:.2%}")


plugin: Search = Joint()
