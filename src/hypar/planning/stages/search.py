"""Find the stages of a network, together with the cuts inside them: of a given number, or of the best one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.plan.request import BEST
from hypar.planning.stages.best import best_stages
from hypar.planning.stages.division import divided, unfit
from hypar.planning.stages.sites import orders_of
from hypar.sharding.space import parse_pin

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.network.graph import LayerGraph
    from hypar.planning.resolved import Resolved
    from hypar.planning.stages.running import Staging
    from hypar.planning.stages.sites import KnownOf
    from hypar.planning.stages.spans import CutSpans
    from hypar.sharding.space import Pin


def pins_of(request: Resolved, graph: LayerGraph) -> tuple[Pin, ...]:
    """Parse the pins of a request, which hold at the levels inside every stage.

    Raises:
        OptionError: there is no such layer, level or choice.
    """
    apart = request.heterogeneous is not None and not request.outside
    nodes, levels = graph.nodes(request.graph), request.levels - apart
    return tuple(parse_pin(text, nodes, levels) for text in request.pins)


def plan_stages(
    request: Resolved,
    graph: LayerGraph,
    progress: Callable[[int, int], None] = lambda *_: None,
    limit: float = math.inf,
) -> tuple[Staging, tuple[CutSpans, ...]] | None:
    """Divide a network into the requested stages, and cut each stage.

    Args:
        request: the request.
        graph: the network.
        progress: called with the number of tries done, and their total.
        limit: seconds that a step of the best stages must be below.

    Returns:
        The stages, with the spans that each is of, or None if the best stages are not below the limit.

    Raises:
        InputError: the network, the batch or the machine does not allow that number of stages.
        TableLimitError: the network has too many layers, or the tables of a search would not fit.
    """
    if request.stages == BEST:
        return best_stages(request, graph, progress, limit)
    assert isinstance(request.stages, int)  # noqa: S101 (checked with the request)
    return _in_orders(request, graph, request.stages)


def _in_orders(request: Resolved, graph: LayerGraph, stages: int) -> tuple[Staging, tuple[CutSpans, ...]]:
    """Return the best stages in the order of device groups whose step is the fastest by the engine.

    Raises:
        InputError: that number of stages is not possible, or no partition fits the memory in any order.
    """
    found: list[tuple[Staging, tuple[CutSpans, ...]]] = []
    known: KnownOf = {}
    for groups in orders_of(request, stages):
        own = divided(request, graph, groups, known)
        if own is not None:
            found.append((own.run(), own.spans))
    if not found:
        raise unfit(request, graph, next(iter(orders_of(request, stages))))
    return min(found, key=lambda one: one[0].ran.timeline.makespan)
