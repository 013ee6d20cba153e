"""Plan a network for a heterogeneous machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.planning.baselines import claim_of_fastest
from hypar.planning.records import Decided
from hypar.planning.uneven.fastest import take_fastest
from hypar.planning.uneven.records import claim_of, splits_of
from hypar.planning.uneven.search import plan_branches, solver_for
from hypar.schedule.scoring import summarise
from hypar.sharding.pins import parse_pin

if TYPE_CHECKING:
    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.network.graph import LayerGraph
    from hypar.planning.request import Request


def decided_groups(request: Request, heterogeneous: HeterogeneousMachine, graph: LayerGraph) -> Decided:
    """Decide a network for the heterogeneous machine that a request names.

    Args:
        request: the request.
        heterogeneous: the machine.
        graph: the network.

    Raises:
        InputError: the request does not suit the network or the machine.
        TableLimitError: a search would not fit.
    """
    contracted = graph.nodes(request.graph)
    pins = tuple(parse_pin(text, contracted, request.levels) for text in request.pins)
    request = replace(request, solver=solver_for(request, contracted))
    found = plan_branches(request, contracted, pins, graph.element_bytes)
    claim = claim_of(request, found)
    fastest = take_fastest(request, contracted, pins, graph.element_bytes, found)
    branch, ran = fastest.branch, fastest.ran
    return Decided(
        claim=claim_of_fastest(fastest.record, claim, passed_over=fastest.passed_over),
        solver=request.solver or "",
        pins=pins,
        splits=list(splits_of(branch)),
        cost=branch.cost,
        path=branch.path if branch.slowest else None,
        baselines=fastest.record,
        chunks=ran.chunks,
        score=summarise(fastest.lanes, ran.step, ran.timeline, heterogeneous),
    )
