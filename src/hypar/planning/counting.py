"""The convention by which a plan's cost and its score count bytes, and a plan counted by another one."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING, NamedTuple

from hypar.costs.base import load_cost
from hypar.errors import OptionError
from hypar.plan.records import of_score
from hypar.plan.request import checked
from hypar.planning.question import ask
from hypar.planning.resolved import Resolved
from hypar.planning.searches.base import costs_by_level
from hypar.sharding.conventions import PAPER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.records import Score


class Conventions(NamedTuple):
    """The conventions of a plan.

    Attributes:
        cost: the convention of the cost that is minimised.
        score: the convention of the score's bytes and seconds.
    """

    cost: str
    score: str


def conventions_of(asked: str | None, own: str, cost: str) -> Conventions:
    """Return the conventions of a plan from what is asked for.

    Args:
        asked: the convention that is asked for, of both; None if none is.
        own: the convention of the strategy's cost.
        cost: name of the cost.

    Raises:
        OptionError: the convention that is asked for cannot be counted here.
        UnknownNameError: there is no such convention.
    """
    given = None if asked is None else checked("convention", asked)
    if not follows(cost):
        if given not in {None, PAPER}:
            raise OptionError("convention", f"found {given!r}; cost {cost!r} has a count of its own", PAPER)
        return Conventions(PAPER, PAPER)
    return Conventions(own, of_score(own)) if given is None else Conventions(given, given)


def follows(cost: str) -> bool:
    """Return whether a cost can count by any convention."""
    return "convention" in {item.name for item in fields(load_cost(cost, {}))}  # type: ignore[arg-type]


def cost_convention(plan: Plan) -> str:
    """Return the convention of a plan's cost, as people read it."""
    return _papers(plan) if plan.convention == PAPER else plan.convention


def score_convention(plan: Plan, score: Score | None = None) -> str:
    """Return the convention of a score, as people read it.

    Args:
        plan: the plan.
        score: its score; the plan's own if it is not given, or the one it would have if it has none.
    """
    score = plan.score if score is None else score
    if score is None:
        return of_score(plan.convention)
    return _papers(plan) if score.convention == PAPER else score.convention


def _papers(plan: Plan) -> str:
    return load_cost(plan.cost.name, plan.cost.parameters).convention


def bytes_received(plan: Plan, graph: LayerGraph, convention: str) -> float:
    """Return the bytes that all devices receive under a plan's choices, counted by a convention.

    Args:
        plan: a plan for identical devices, without several stages.
        graph: the network, with the plan's batch.
        convention: the convention.
    """
    none: Mapping[str, float] = {}
    own = Resolved.of(plan)
    request = replace(
        own, cost="volume", parameters=none, convention=convention, counted=convention, profile=None
    )
    question, _ = ask(replace(request, pins=()), request.network(graph))
    costs = costs_by_level(question, tuple(plan.choices(layer.name) for layer in question.graph.layers))
    return math.fsum(math.fsum(of_level) for of_level in costs)
