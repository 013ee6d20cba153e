"""Search level by level, outermost first, each level optimally given the levels above it.

Source: HyPar (HPCA 2019), Algorithm 2. Cost: one search for each level. Guarantee: the optimum of each level,
not of all levels together.
"""

from __future__ import annotations

from hypar.planning.question import Answer, Question, Search, level_by_level
from hypar.solve.cost_graph import CostGraph, Solution


def run(question: Question) -> Answer:
    """Solve one cost graph for each level."""
    distinct = {options: index for index, options in enumerate(zip(*question.options, strict=True))}
    structures = [question.structure(index, index + 1) for index in distinct.values()]
    name, solver = question.pick_solver(*structures)
    solutions: list[Solution] = []

    def assign(problem: CostGraph) -> tuple[int, ...]:
        solutions.append(solver.solve(problem))
        return solutions[-1].assignment

    choices, costs = level_by_level(question, assign)
    exact = all(solver.exact or one.bound == one.cost for one in solutions)
    bounds = tuple(one.bound for one in solutions if one.bound is not None)
    return Answer(choices=choices, costs=costs, solver=name, exact=exact, bounds=bounds)


plugin = Search("greedy: each level is optimal given the levels above it,", at_once=False, run=run)
