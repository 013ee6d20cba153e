"""The joint search over one flat level whose devices each layer may number in an order of its own.

Idea: the prime factors of the ways are levels, and the optimum over them is the optimum over all grids and all
numberings, as no numbering shares more than the best order of levels does (``docs/optimal.md``). Where no such search closes, the
devices are numbered through.
"""

from __future__ import annotations

import math
from dataclasses import replace

from hypar.errors import TableLimitError
from hypar.network.graph import LayerGraph
from hypar.planning.question import Answer, Question, ask, load_search
from hypar.planning.resolved import Resolved
from hypar.planning.searches.joint import COUNTS
from hypar.sharding.conventions import PAPER
from hypar.sharding.placement import levels_of, numbered, primes, runs_of
from hypar.sharding.space import parse_space


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
    space, ways = parse_space(request.space, None), request.array[0]
    return (
        len(primes(ways)) > 1
        and load_search(request.search).at_once
        and request.cost == "volume"
        and request.convention != PAPER
        and space.whole_grids
        and (space.divisors or ways & (ways - 1) == 0)
    )
