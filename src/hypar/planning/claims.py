"""The claim of a plan: the space, search and objective for which it is optimal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.sharding.conventions import PAPER
from hypar.units import format_bytes

if TYPE_CHECKING:
    from hypar.planning.resolved import Resolved
    from hypar.planning.searches.base import Answer, Question


def claim_of(request: Resolved, question: Question, answer: Answer, claim: str) -> str:
    """Return the claim of a plan: the space, search and objective for which it is optimal.

    Args:
        request: the request.
        question: the search problem built from it.
        answer: the result of the search.
        claim: the claim of the search if solved exactly.
    """
    pins = f" and {len(request.pins)} pin{'s' * (len(request.pins) > 1)}" if request.pins else ""
    if question.leaves_no_choice:
        return f"fixed: the only plan over ({request.space}){pins}"
    if answer.bounds and not answer.exact:
        claim = f"not proven optimal, but {_gap_of(answer)}; {request.search} search{_limited(answer)}"
    elif not answer.exact:
        claim = f"not optimal: solver {answer.solver!r} is not exact; {request.search} search"
    kind = _kind_of(question) + _numbering(request, question)
    return f"{claim} over ({request.space}){pins}, {kind}, for least {objective(request)}"


def _numbering(request: Resolved, question: Question) -> str:
    """Return what a claim says of the numbering of a flat level's devices."""
    if question.numbered or len(request.array) > 1:
        return ""
    from hypar.planning.flat import numbered_through  # noqa: PLC0415 (only for a single level)

    return ", numbered through" * numbered_through(request, question)


def objective(request: Resolved) -> str:
    """Return the name of the minimised cost, with the convention if it is not ``paper``.

    The cost ``time`` ignores a machine's overlap, so this is added.
    """
    overlap = request.cost == "time" and any(machine.overlap for machine in request.machines)
    ignored = ", nothing overlapped" if overlap else ""
    counted = "" if request.convention == PAPER else f", counted by {request.convention}"
    return f"{request.cost}{ignored}{counted}"


def _gap_of(answer: Answer) -> str:
    """Return the largest gap between the cost graphs' solutions and their lower bounds."""
    costs = [math.fsum(at_level) for at_level in answer.costs]
    found = [math.fsum(costs)] if len(answer.bounds) == 1 else costs
    gaps = [1 - bound / cost if cost else 0.0 for bound, cost in zip(answer.bounds, found, strict=True)]
    of = "each level's optimum" if len(gaps) > 1 else "the optimum"
    gap = max(0.0, *gaps)
    return f"{of} is less than 0.01% lower" if 0 < gap < 5e-5 else f"{of} is at most {gap:.2%} lower"


def _limited(answer: Answer) -> str:
    """Return the limits that kept a search from a proof, and how it was cut short."""
    if answer.limits is None:
        return ""
    if answer.cut is not None and answer.cut.by == "interrupt":
        return " cut short by an interrupt,"
    seconds, size = f"{answer.limits.seconds:g} s", format_bytes(answer.limits.bytes)
    return f" cut short after {seconds}," if answer.cut is not None else f" within {seconds} and {size},"


def _kind_of(question: Question) -> str:
    """Return the kind of choices in a search problem."""
    if question.numbered:
        return "grids of dims, numbered freely"
    every = {
        (id(options), level.ways): options
        for at_layer in question.options
        for options, level in zip(at_layer, question.levels, strict=True)
    }
    several = any(len(choice.degrees) > 1 for options in every.values() for choice in options)
    idle = any(choice.devices(ways) < ways for (_, ways), options in every.items() for choice in options)
    return ("grids of dims" if several else "one dim a level") + (", devices may be idle" if idle else "")
