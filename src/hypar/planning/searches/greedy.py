"""Search level by level, outermost first, each level optimally given the levels above it.

Source: HyPar (HPCA 2019), Algorithm 2. Cost: one search for each level. Guarantee: the optimum of each level,
not of all levels together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.planning.question import Answer, Question, Search

if TYPE_CHECKING:
    from hypar.sharding.placement import Choice


class Greedy:
    """HyPar's hierarchical search."""

    claim = "greedy: each level is optimal given the levels above it,"
    at_once = False

    def run(self, question: Question) -> Answer:
        """Solve one cost graph for each level."""
        sizes = question.outermost()
        name, solver = question.pick_solver(*question.level_structures())
        chosen: list[list[Choice]] = []
        costs, bounds, exact = [], [], True
        for index in range(len(question.levels)):
            problem = question.cost_graph(index, index + 1, sizes)
            solution = solver.solve(problem)
            assignment = solution.assignment
            bounds += [] if solution.bound is None else [solution.bound]
            exact = exact and (solver.exact or solution.bound == solution.cost)
            chosen.append(
                [options[index][pick] for options, pick in zip(question.options, assignment, strict=True)]
            )
            costs.append(problem.costs_by_node(assignment))
            if index + 1 < len(question.levels):
                sizes = question.below(sizes, chosen[-1], question.levels[index].ways)
        choices = tuple(zip(*chosen, strict=True))
        return Answer(choices=choices, costs=tuple(costs), solver=name, exact=exact, bounds=tuple(bounds))


plugin: Search = Greedy()
