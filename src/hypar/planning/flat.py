"""The joint search over one flat level whose devices each layer may number in an order of its own.

Idea: the prime factors of the ways are levels, and the optimum over them is the optimum over all grids and all
numberings, as no numbering shares more than the best order of levels does (``docs/optimal.md``). Where a layer would
be cut further than its dims have elements, height and width take the place of the batch at the digits at which fewest layers
cut it. Where that does not do, a second search allows the batch in the outer digits only, then height and width in turn, and a dim of
channels in the inner ones. The optimum of the first search is the lower bound.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from hypar.costs.graphs.counted import counted
from hypar.costs.graphs.offered import UncountableError
from hypar.errors import TableLimitError
from hypar.planning.question import ask
from hypar.planning.searches.base import Answer, costs_by_level, load_search
from hypar.planning.searches.jointly.counts import COUNTS
from hypar.sharding.dims import BATCH, SPATIAL
from hypar.sharding.levels import levels_of
from hypar.sharding.placement import WHOLE, cut, numbered, primes, runs_of
from hypar.sharding.space import parse_space
from hypar.solve.counts.columns import Columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.graph import LayerGraph
    from hypar.planning.resolved import Resolved
    from hypar.planning.searches.base import Question
    from hypar.sharding.placement import Choice, Options
    from hypar.sharding.space import Pin


def by_digits(request: Resolved, graph: LayerGraph) -> tuple[Question, tuple[Pin, ...], Answer] | None:
    """Return the answer of a request for a flat level, with numberings; None if the request does not let devices be numbered.

    Raises:
        InputError: the request does not suit the network.
    """
    if not _free(request):
        return None
    digits = tuple(primes(request.array[0]))
    question, pins = ask(request.over(digits), graph)
    if not question.by_products or question.cost.counts_work:
        return None
    try:
        answer = load_search(request.search).run(question)
    except TableLimitError:
        return None
    if not answer.exact and answer.solver != COUNTS and answer.limits is None:
        return None
    if _beyond(question, answer.choices):
        capped = _capped(question, answer)
        if capped is None:
            return None
        answer = capped
    flat = levels_of(request.array, question.levels[0].element_bytes)
    choices = tuple((_joined(own, digits),) for own in answer.choices)
    whole = replace(question, levels=flat, options=tuple(own[:1] for own in question.options), numbered=True)
    return whole, pins, replace(answer, choices=choices, costs=(_summed(answer.costs),))


def numbered_through(request: Resolved, question: Question) -> bool:
    """Return whether pins or refinement keep the devices of a flat level from being numbered by each layer.

    Both hold single grids, which say nothing of an order.
    """
    held = bool(request.pins or request.refine)
    return held and _is_flat(request) and question.by_products and not question.cost.counts_work


def _free(request: Resolved) -> bool:
    """Return whether a request is for one level of which every grid may be numbered in any order."""
    return _is_flat(request) and not (request.pins or request.refine)


def _is_flat(request: Resolved) -> bool:
    """Return whether a request is for the bytes of one level whose grids have orders."""
    space = parse_space(request.space, None)
    ways = math.prod(request.array)
    return (
        len(request.array) == 1
        and len(primes(ways)) > 1
        and load_search(request.search).at_once
        and request.cost == "volume"
        and space.whole_grids
        and (space.divisors or ways & (ways - 1) == 0)
    )


def _joined(choices: Options, digits: Sequence[int]) -> Choice:
    """Return the choice of a level whose digits have some choices."""
    return numbered(run for own, ways in zip(choices, digits, strict=True) for run in runs_of(own, ways))


def _summed(costs: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(map(math.fsum, zip(*costs, strict=True)))


def _beyond(question: Question, choices: Sequence[Options]) -> set[tuple[int, str]]:
    """Return the layers and dims that are cut further than they have elements."""
    found = set()
    for at, (layer, own) in enumerate(zip(question.graph.layers, choices, strict=True)):
        for dim in {dim for choice in own for dim in choice.divided}:
            if math.prod(choice.degree(dim) for choice in own) > layer.nest.sizes[dim]:
                found.add((at, dim))
    return found


class _Digit(NamedTuple):
    """A digit of the capped search.

    Attributes:
        dim: the dim that a cut of the batch stands for; None for none.
        degree: the degree of this dim after it.
    """

    dim: str | None
    degree: int


def _capped(question: Question, free: Answer) -> Answer | None:
    """Return a plan that cuts no dim further than it has elements, with the bound of one that may; None if there is none."""
    ways = [level.ways for level in question.levels]
    digits = _digits(question, ways)
    choices = _turned(question, free.choices, digits) if len({*ways}) == 1 else None
    if choices is None:
        choices = _anew(question, free, digits, ways)
    if choices is None:
        return None
    costs = costs_by_level(question, choices)
    cost = math.fsum(map(math.fsum, costs))
    bound = min(max(free.bounds, default=math.fsum(map(math.fsum, free.costs))), cost)
    return replace(free, choices=choices, costs=costs, solver=COUNTS, exact=bound == cost, bounds=(bound,))


def _turned(
    question: Question, choices: Sequence[Options], digits: Sequence[_Digit]
) -> tuple[Options, ...] | None:
    """Return a plan with height and width in place of the batch at the digits at which fewest layers cut it.

    Returns:
        None if a dim would still be cut further than it has elements.
    """
    columns = [*zip(*choices, strict=True)]
    columns.sort(key=lambda column: -sum(choice.divided == (BATCH,) for choice in column))
    found = tuple(
        tuple(_renamed(choice, digit) for choice, digit in zip(own, digits, strict=True))
        for own in zip(*columns, strict=True)
    )
    beyond = any(
        dim not in layer.nest.sizes
        for layer, own in zip(question.graph.layers, found, strict=True)
        for choice in own
        for dim in choice.divided
    )
    return None if beyond or _beyond(question, found) else found


def _anew(
    question: Question, free: Answer, digits: Sequence[_Digit], ways: Sequence[int]
) -> tuple[Options, ...] | None:
    """Return a plan by columns, of which each digit allows what ``_allowed`` says; None if there is none."""
    barred = _beyond(question, free.choices)
    options = tuple(
        tuple(_allowed(question, at, level, digits[level], barred, ways) for level in range(len(ways)))
        for at in range(len(question.graph.layers))
    )
    if not all(own for at_layer in options for own in at_layer):
        return None
    try:
        problem = counted(question.cost, question.graph, question.levels, options)
    except UncountableError:
        return None
    search = Columns(problem.graph)
    if not search.widest:
        return None
    plan = search.improved(search.greedy(), search.widest)
    return tuple(
        tuple(_renamed(choice, digit) for choice, digit in zip(own, digits, strict=True))
        for own in problem.choices(plan.orders)
    )


def _digits(question: Question, ways: Sequence[int]) -> list[_Digit]:
    """Return what the batch stands for at each digit: itself as far as it goes, then height and width in turn."""
    samples = question.graph.layers[0].nest.sizes[BATCH]
    image = [
        dim for dim in SPATIAL if any(dim in choice.divided for own in question.options for choice in own[0])
    ]
    found: list[_Digit] = []
    done = dict.fromkeys((BATCH, *image), 1)
    turn = 0
    for size in ways:
        dim: str | None = BATCH
        if done[BATCH] * size > samples:
            dim = image[turn % len(image)] if image else None
            turn += 1
        if dim is not None:
            done[dim] *= size
        found.append(_Digit(dim, 1 if dim is None else done[dim]))
    return found


def _allowed(
    question: Question, at: int, level: int, digit: _Digit, barred: set[tuple[int, str]], ways: Sequence[int]
) -> Options:
    """Return the options of a layer at a digit, with the batch in place of what it stands for."""
    sizes = question.graph.layers[at].nest.sizes
    inner = [*accumulate(reversed(ways[level:]), mul)][-1]
    found = []
    for choice in question.options[at][level]:
        dim = next(iter(choice.divided), None)
        if dim is None:
            found.append(choice)
        elif dim == digit.dim:
            if digit.degree <= sizes[dim]:
                found.append(cut(BATCH, ways[level]))
        elif dim not in {BATCH, *SPATIAL} and ((at, dim) not in barred or inner <= sizes[dim]):
            found.append(choice)
    return tuple(found)


def _renamed(choice: Choice, digit: _Digit) -> Choice:
    """Return a choice with the dim that the batch stands for."""
    if choice == WHOLE or digit.dim is None or choice.divided != (BATCH,):
        return choice
    return cut(digit.dim, choice.degree(BATCH))
