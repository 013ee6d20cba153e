"""Plan a network for a heterogeneous machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.errors import OptionError
from hypar.planning.chunks.search import run_chunked
from hypar.planning.records import Decided
from hypar.planning.uneven.records import claim_of, splits_of
from hypar.planning.uneven.search import plan_branches, solver_for
from hypar.planning.uneven.tree import lanes_of
from hypar.schedule.scoring import summarise
from hypar.schedule.stages import StepWork
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
    refused = {
        "refine": request.refine,
        "profile": request.profile is not None,
    }
    for what, asked in refused.items():
        if asked:
            raise OptionError(
                what,
                f"the devices of hardware {heterogeneous.name!r} are heterogeneous",
                "a machine of identical devices",
            )
    contracted = graph.nodes(request.graph)
    levels = max(depth + len(request.arrays[name]) for name, _, depth in heterogeneous.identical())
    pins = tuple(parse_pin(text, contracted, levels) for text in request.pins)
    request = replace(request, solver=solver_for(request, contracted))
    found = plan_branches(request, contracted, pins, graph.element_bytes)
    work = StepWork.of(*lanes_of(found))
    ran = run_chunked(work, request.chunks)
    return Decided(
        claim=claim_of(request, found),
        solver=request.solver or "",
        pins=pins,
        splits=list(splits_of(found)),
        cost=found.cost,
        path=found.path if found.slowest else None,
        chunks=ran.chunks,
        score=summarise(work.lanes, ran.step, ran.timeline, heterogeneous),
    )
