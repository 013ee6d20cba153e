"""The joint search over one flat level whose devices each layer may number in an order of its own.

Idea: the prime factors of the ways are levels, and the optimum over them is the optimum over all grids and all
numberings, as no numbering shares more than the best order of levels does (``docs/optimal.md``). Where a layer would
be cut further than its dims have elements, height and width take the place of the batch at the digits at which fewest layers
cut it, and the optimum is the lower bound. Where that does not do, the devices are numbered through.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.errors import TableLimitError
from hypar.planning.question import Answer, ask, costs_by_level, load_search
from hypar.planning.searches.jointly.counts import COUNTS
from hypar.sharding.dims import BATCH, SPATIAL
from hypar.sharding.levels import levels_of
from hypar.sharding.placement import cut, numbered, primes, runs_of
from hypar.sharding.space import parse_space

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.graph import LayerGraph
    from hypar.planning.question import Question
    from hypar.planning.resolved import Resolved
    from hypar.sharding.placement import Choice, Options


def by_digits(request: Resolved, graph: LayerGraph) -> tuple[Question, Answer] | None:
    """Return the answer of a request for a flat level, with numberings; None if the request does not let devices be numbered.

    Raises:
        InputError: the request does not suit the network.
    """
    if not _free(request):
        return None
    digits = tuple(primes(request.array[0]))
    question = ask(request.over(digits), graph)
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
    return whole, replace(answer, choices=choices, costs=(_summed(answer.costs),))


def numbered_through(request: Resolved, question: Question) -> bool:
    """Return whether the devices of a flat level might be numbered by each layer, but are not.

    Pins and refinement hold single grids, which say nothing of an order; elsewhere no order may cut dims as far as they go.
    """
    return _is_flat(request) and question.by_products and not question.cost.counts_work


def _free(request: Resolved) -> bool:
    """Return whether a request is for one level of which every grid may be numbered in any order."""
    return _is_flat(request) and not (request.pins or request.refine)


def _is_flat(request: Resolved) -> bool:
    """Return whether a request is for the bytes of one level whose grids have orders."""
    if len(request.array) != 1:
        return False
    space, (ways,) = parse_space(request.space, None), request.array
    return (
        len(primes(ways)) > 1
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


def _beyond(question: Question, choices: Sequence[Options]) -> bool:
    """Return whether a layer is cut further than a dim has elements, or in one that it does not have."""
    return any(
        math.prod(choice.degree(dim) for choice in own) > layer.nest.sizes.get(dim, 0)
        for layer, own in zip(question.graph.layers, choices, strict=True)
        for dim in {dim for choice in own for dim in choice.divided}
    )


def _capped(question: Question, free: Answer) -> Answer | None:
    """Return a plan that cuts no dim further than it has elements, with the bound of one that may; None if there is none."""
    ways = [level.ways for level in question.levels]
    choices = _turned(free.choices, _digits(question, ways))
    if len({*ways}) > 1 or _beyond(question, choices):
        return None
    costs = costs_by_level(question, choices)
    cost = math.fsum(map(math.fsum, costs))
    bound = min(max(free.bounds, default=math.fsum(map(math.fsum, free.costs))), cost)
    return replace(free, choices=choices, costs=costs, solver=COUNTS, exact=bound == cost, bounds=(bound,))


def _turned(choices: Sequence[Options], digits: Sequence[str | None]) -> tuple[Options, ...]:
    """Return a plan with height and width in place of the batch at the digits at which fewest layers cut it."""
    columns = [*zip(*choices, strict=True)]
    columns.sort(key=lambda column: -sum(choice.divided == (BATCH,) for choice in column))
    rows = zip(*columns, strict=True)
    return tuple(tuple(map(_renamed, own, digits)) for own in rows)


def _digits(question: Question, ways: Sequence[int]) -> list[str | None]:
    """Return what the batch stands for at each digit: itself as far as it goes, then height and width in turn."""
    samples = question.graph.layers[0].nest.sizes[BATCH]
    image = [
        dim for dim in SPATIAL if any(dim in choice.divided for own in question.options for choice in own[0])
    ]
    found: list[str | None] = []
    done = dict.fromkeys((BATCH, *image), 1)
    turn = 0
    for size in ways:
        dim: str | None = BATCH
        if done[BATCH] * size > samples:
            dim = image[turn % len(image)] if image else None
            turn += 1
        if dim is not None:
            done[dim] *= size
        found.append(dim)
    return found


def _renamed(choice: Choice, dim: str | None) -> Choice:
    """Return a choice with the dim that the batch stands for."""
    return choice if dim is None or choice.divided != (BATCH,) else cut(dim, choice.degree(BATCH))
