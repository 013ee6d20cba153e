"""The joint search over one flat level whose devices each layer may number in an order of its own.

Idea: the prime factors of the ways are levels, and the optimum over them is the optimum over all grids and all
numberings, as no numbering shares more than the best order of levels does (``docs/optimal.md``). Where a layer would
be cut further than its dims have elements, height and width take the place of the batch at the digits at which fewest layers
cut it, and the optimum is the lower bound. Where that does not do, the devices are numbered through.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING

from hypar.errors import TableLimitError
from hypar.planning.question import Answer, ask, costs_by_level, load_search
from hypar.planning.searches.joint import COUNTS
from hypar.sharding.conventions import PAPER
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
    within = _capped(question, answer) if _beyond(question, answer.choices) else answer
    if within is None:
        return None
    flat = levels_of(request.array, question.levels[0].element_bytes)
    whole = replace(question, levels=flat, options=tuple(own[:1] for own in question.options), numbered=True)
    joined = (
        numbered(run for choice, ways in zip(own, digits, strict=True) for run in runs_of(choice, ways))
        for own in within.choices
    )
    costs = tuple(map(math.fsum, zip(*within.costs, strict=True)))
    return whole, replace(within, choices=tuple((choice,) for choice in joined), costs=(costs,))


def numberable(request: Resolved) -> bool:
    """Return whether a request is for the bytes of one level of which every grid may be numbered in any order."""
    space, ways = parse_space(request.space, None), request.array[0]
    return (
        len(primes(ways)) > 1
        and load_search(request.search).at_once
        and request.cost == "volume"
        and request.convention != PAPER
        and space.whole_grids
        and (space.divisors or ways & (ways - 1) == 0)
    )


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

    def renamed(choice: Choice, dim: str | None) -> Choice:
        return choice if dim is None or choice.divided != (BATCH,) else cut(dim, choice.degree(BATCH))

    columns = [*zip(*choices, strict=True)]
    columns.sort(key=lambda column: -sum(choice.divided == (BATCH,) for choice in column))
    return tuple(tuple(map(renamed, own, digits)) for own in zip(*columns, strict=True))


def _digits(question: Question, ways: Sequence[int]) -> list[str | None]:
    """Return what the batch stands for at each digit: itself as far as it goes, then height and width in turn."""
    samples, options = question.graph.layers[0].nest.sizes[BATCH], question.options
    image = [dim for dim in SPATIAL if any(dim in choice.divided for own in options for choice in own[0])]
    turns, done, found = cycle(image or (None,)), 1, list[str | None]()
    for size in ways:
        within = done * size <= samples
        done *= size if within else 1
        found.append(BATCH if within else next(turns))
    return found
