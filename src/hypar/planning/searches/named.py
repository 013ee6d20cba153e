"""The searches over the levels by their names.

*Greedy:* level by level, outermost first, each level optimally given the levels above it.
Source: HyPar (HPCA 2019), Algorithm 2. Cost: one search for each level. Guarantee: the optimum of each level,
not of all levels together.

*Joint:* all levels at once: the choice of a layer is a tuple with one choice for each level.
Where the order of levels does not matter, the search is by counts, of the solver ``counts``; otherwise it is a search over
tuples. Cost: one search over the product of the levels' choices. Guarantee: the optimum over all levels
together if the tables of an exact solver fit, or plan and bound meet; otherwise a plan that costs no more than the greedy one,
and a lower bound. If not even one vector for each layer fits, the plan is the greedy one, and the bound is the sum of the levels'
relaxed optima, in which every layer has the local sizes that make it cheapest. At its limits, or when it is interrupted, the
search answers with the best plan and the highest bound so far.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from hypar.activity import tell
from hypar.errors import TableLimitError
from hypar.network.graph import LayerGraph
from hypar.planning.question import Answer, Question, Search, ask, latest, load_search
from hypar.planning.resolved import Resolved
from hypar.sharding.conventions import PAPER
from hypar.sharding.placement import Choice, Options, levels_of, numbered, primes, runs_of
from hypar.sharding.space import parse_space
from hypar.solve.cost_graph import CostGraph, Solution, Structure
from hypar.solve.edge import Indices
from hypar.solve.limits import Budget, Limits
from hypar.solve.solvers.base import FALLBACK, load_solver, require_tables
from hypar.units import format_bytes

if TYPE_CHECKING:
    from hypar.costs.graphs.counted import Counted
    from hypar.solve.counts.solution import Found

    Choices = tuple[Options, ...]
    Left = tuple[CostGraph, list[Indices]]

COUNTS = "counts"
"""The solver that searches by counts."""

COUNTING_PAYS = NARROWING_PAYS = 2**20
"""Entries of a cost graph of whole matrices from which counts take less time; and from which tuples are left out first."""

MOST_TUPLES = 2**22
"""Most tuples of all layers whose costs are computed one by one."""

ROUNDING = 1e-11
"""Largest difference of equal costs that are added up in another order, relative to them."""


def level_by_level(
    question: Question, assign: Callable[[CostGraph], Sequence[int]]
) -> tuple[tuple[Options, ...], tuple[tuple[float, ...], ...]]:
    """Assign an option to every layer at one level after another, outermost first; return its choices, and its cost at each."""
    above, chosen, costs = question.outermost(), list[list[Choice]](), list[tuple[float, ...]]()
    for index, level in enumerate(question.levels):
        here = question.at(index, chosen)
        problem = here.tables(index, index + 1, above).built()
        assignment = assign(problem)
        costs.append(problem.costs_by_node(assignment))
        chosen.append([own[index][pick] for own, pick in zip(here.options, assignment, strict=True)])
        if index + 1 < len(question.levels):
            above = above.below(question.graph, [(choice,) for choice in chosen[-1]], level.ways)
    return tuple(zip(*chosen, strict=True)), tuple(costs)


def costs_by_level(question: Question, choices: tuple[Options, ...]) -> tuple[tuple[float, ...], ...]:
    """Return the cost of every layer at each level, given its choice at each."""
    single = tuple(tuple((choice,) for choice in own) for own in choices)
    made = replace(question, options=single, sizes=())
    return level_by_level(made, lambda _: [0] * len(choices))[1]


def priced(question: Question, choices: Choices, solver: str = COUNTS) -> Answer:
    """Return choices with their costs, of which nothing is proven."""
    costs = costs_by_level(question, choices)
    return Answer(choices=choices, costs=costs, solver=solver, exact=False)


def _bounded(found: Answer, bound: float | None = None, *, exact: bool = False) -> Answer:
    """Return choices with a lower bound of all plans, if there is one, or as the proven optimum."""
    # Sums in another order differ by rounding where a number of ways is no power of two.
    bounds = () if bound is None else (found.cost if exact else min(bound, found.cost),)
    return replace(found, bounds=bounds, exact=exact)


def by_level(question: Question) -> Answer:
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


def jointly(question: Question) -> Answer:
    """Search one cost graph for all levels, as far as the limits allow."""
    limits = question.limits or Limits()
    budget = Budget(limits)
    best, cut = latest(_standings(question, budget), question.limits, partial(_tell, question))
    answer = best or relaxed(question)
    if best is not None and best.solver == FALLBACK and not best.exact:
        answer = min(best, _bounded(greedy(question), *best.bounds), key=lambda each: each.cost)
    struck = not answer.exact and (budget.struck or cut is not None)
    return replace(answer, limits=limits, cut=cut) if struck else answer


def _standings(question: Question, budget: Budget) -> Iterator[Answer]:
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


def _tell(question: Question, found: Answer) -> None:
    if found.exact or not any(found.bounds):
        return
    both = (found.cost, *found.bounds)
    named = [format_bytes(own) if question.cost.unit == "bytes" else f"{own:.4g} s" for own in both]
    tell(f"best plan {named[0]}, bound {named[1]}, gap {1 - both[1] / both[0]:.2%}")


def greedy(question: Question, bound: float | None = None, solver: str = FALLBACK) -> Answer:
    """Return the plan level by level with a lower bound, under the name of a solver."""
    return _bounded(replace(by_level(replace(question, solver=None)), solver=solver), bound)


def relaxed(question: Question) -> Answer:
    """Return the greedy plan, with the sum of the lower bounds of the single levels."""
    solver, bounds, left = load_solver(FALLBACK), [], question.outermost()
    for index in range(len(question.levels)):
        solution = solver.solve(question.tables(index, index + 1, left).built())
        bounds.append(solution.cost if solution.bound is None else solution.bound)
        options = [at_layer[index] for at_layer in question.options]
        left = left.below(question.graph, options, question.levels[index].ways, least=True)
    return greedy(question, math.fsum(bounds))


def better_of(one: Answer, other: Answer) -> Answer:
    """Return the cheaper of two plans, with the higher bound of both; the first one if it is proven."""
    if one.exact or not (one.bounds and other.bounds):
        return one
    best = min(one, other, key=lambda each: each.cost)
    bound = max(*one.bounds, *other.bounds)
    return _bounded(best, bound, exact=best.exact or bound >= best.cost)


def by_counts(question: Question, structure: Structure, budget: Budget) -> Iterator[Answer]:
    """Search by counts, where that is asked for or whole matrices of pairs would be large; yield nothing if it cannot be done."""
    if question.solver != COUNTS and (question.solver is not None or structure.entries <= COUNTING_PAYS):
        return
    problem = question.counted()
    if problem is None:
        return
    from hypar.solve.counts.solution import improving  # noqa: PLC0415 (only where counting pays)

    every = improving(problem.graph, budget)
    if question.entered is not None:
        for found in deque(every, maxlen=1):
            yield _of_group(question, problem, found.orders)
        return
    yield from _improving(question, problem, every)


def _proven(found: Answer, bound: float) -> Answer:
    """Return a plan with a bound of counts: what they leave out makes plans cost more than they say."""
    return _bounded(found, bound, exact=bound >= found.cost * (1 - ROUNDING))


def _improving(question: Question, problem: Counted, improving: Iterator[Found]) -> Iterator[Answer]:
    """Yield the plans of a search by counts, which do not say all costs, each with its price."""

    @cache
    def of(choices: Choices | None) -> Answer:
        return greedy(question, solver=COUNTS) if choices is None else priced(question, choices)

    every: list[Choices | None] = []
    bound = -math.inf
    for found in improving:
        every.append(problem.choices(found.orders))
        if found.bound > bound:
            yield _proven(of(every[-1]), bound := found.bound)
    if not every:
        return
    # The last plan by counts, and the last one without idle devices, which cost what their counts say.
    best = _proven(min(map(of, every[-3:]), key=lambda each: each.cost), bound)
    if not best.exact:
        # Counts that leave all tensors out bound nothing.
        best = better_of(best, greedy(question, bound, COUNTS) if bound else relaxed(question))
    yield best


def _of_group(question: Question, problem: Counted, orders: Indices) -> Answer:
    """Return a plan of a group below uneven splits, or the greedy one if it is cheaper: counts know no state above them."""
    plain, choices = replace(relaxed(question), solver=COUNTS), problem.choices(orders)
    if choices is None:
        return plain
    own = _bounded(priced(question, choices), *plain.bounds)
    return min(own, plain, key=lambda each: each.cost)


def by_tuples(question: Question, structure: Structure, budget: Budget) -> Iterator[Answer]:
    """Search the tuples of choices, by a bounded solver where the limits are too low for the cheapest exact one."""
    known = greedy(question).cost if question.sizes else 0.0
    try:
        left = _narrowed(question, structure, budget, known)
    except TableLimitError:
        if question.solver is not None:
            raise
        yield relaxed(question)
        return
    structure = structure if left is None else left[0].structure
    name, solver = question.pick_solver(structure)
    tables = solver.tables(structure)
    if question.solver is None and tables is not None and not tables.within(budget):
        name, solver = FALLBACK, load_solver(FALLBACK)
        tables = solver.tables(structure)
    if name == FALLBACK and tables is not None and not tables.within(budget):
        yield relaxed(question)
        return
    if tables is not None:
        require_tables(name, tables, budget.limits.bytes)
    problem = left[0] if left else question.over_all(known).built()
    improving = getattr(solver, "improving", None)
    price = lru_cache(maxsize=None)(partial(priced, question))
    for solution in [solver.solve(problem)] if improving is None else improving(problem, budget):
        exact = solver.exact or solution.cost == solution.bound
        yield _bounded(price(_chosen(question, solution, left), name), solution.bound, exact=exact)


def _narrowed(question: Question, structure: Structure, budget: Budget, known: float) -> Left | None:
    """Leave out the tuples that cost more than the greedy plan, where whole matrices of pairs would be large."""
    exact = question.solver is None or load_solver(question.solver).exact
    large = structure.entries > NARROWING_PAYS and sum(structure.sizes) <= MOST_TUPLES
    if not (question.by_products and exact and large):
        return None
    known = known or greedy(question).cost
    return question.over_all(known).narrowed(known, budget)


def _chosen(question: Question, solution: Solution, left: Left | None) -> Choices:
    found = []
    for node, (options, chosen) in enumerate(zip(question.options, solution.assignment, strict=True)):
        number = chosen if left is None else left[1][node][chosen]
        indices = np.unravel_index(number, [len(at_level) for at_level in options])
        found.append(tuple(at_level[int(index)] for at_level, index in zip(options, indices, strict=True)))
    return tuple(found)


def by_digits(request: Resolved, graph: LayerGraph) -> tuple[Question, Answer] | None:
    """Return the answer of a request for a flat level, with numberings; None for more levels, or if it does not let devices be numbered.

    The prime factors of the ways are levels, and the optimum over them is the optimum over all grids and all numberings, as no
    numbering shares more than the best order of levels does (``docs/optimal.md``). Where no such search closes, the devices are
    numbered through.

    Pins and refinement hold single grids, which say nothing of an order.
    Raises ``InputError`` if the request does not suit the network.
    """
    if request.pins or request.refine or not numberable(request):
        return None
    digits = tuple(primes(request.array[0]))
    question = ask(request.over(digits), graph)
    try:
        answer = load_search(request.search).run(question)
    except TableLimitError:
        return None
    if not answer.exact and answer.solver != COUNTS and answer.limits is None:
        return None
    flat = levels_of(request.array, question.levels[0].element_bytes)
    first = tuple(own[:1] for own in question.options)
    whole = replace(question, levels=flat, options=first, sizes=(), numbered=True)
    joined = (
        numbered(run for choice, ways in zip(own, digits, strict=True) for run in runs_of(choice, ways))
        for own in answer.choices
    )
    costs = tuple(map(math.fsum, zip(*answer.costs, strict=True)))
    return whole, replace(answer, choices=tuple((choice,) for choice in joined), costs=(costs,))


def numberable(request: Resolved) -> bool:
    """Return whether a request is for the bytes of one level of which every grid may be numbered in any order."""
    space, ways = parse_space(request.space, None), math.prod(request.array)
    return (
        len(request.array) == 1 < len(primes(ways))
        and load_search(request.search).at_once
        and request.cost == "volume"
        and request.convention != PAPER
        and space.whole_grids
        and (space.divisors or ways & (ways - 1) == 0)
    )


plugins = {
    "greedy": Search("greedy: each level is optimal given the levels above it,", at_once=False, run=by_level),
    "joint": Search("optimal, all levels jointly,", at_once=True, run=jointly),
}
