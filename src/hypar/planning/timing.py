"""Time the nodes of a plan on a machine: hold them against baselines, refine them, and score them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.planning.answers import searched
from hypar.planning.baselines import entrants_alike, take_fastest
from hypar.planning.chunks.search import run_chunked
from hypar.planning.nodes.levels import LevelPlanner
from hypar.planning.refinement import refine
from hypar.schedule.scoring import summarise
from hypar.schedule.stages import StepWork
from hypar.sharding.space import parse_pin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.plan.records import RefinementRecord
    from hypar.planning.baselines import Entrants
    from hypar.planning.nodes.levels import Node
    from hypar.planning.records import Decided
    from hypar.planning.resolved import Resolved
    from hypar.sharding.placement import Options


def timed(request: Resolved, graph: LayerGraph, progress: Callable[[int, int], None]) -> Decided:
    """Return the fastest of the search's plan and the baselines, refined if that is asked for, with its score.

    Args:
        request: the request, for a machine and without stages.
        graph: the network.
        progress: called with the numbers of layers done and of all layers in a round of refinement.

    Raises:
        InputError: the request does not suit the network or the machine.
        TableLimitError: the tables of an exact search would not fit.
    """
    planner, found, entrants = _planned(request, graph)
    taken = take_fastest(planner, graph, found, entrants)
    node, refined = _refined(planner, graph, taken.node, progress) if request.refine else (taken.node, None)
    claim = taken.claim(planner.claim(node if taken.searched else found))
    if refined:
        claim += f"{'; ' if taken.record else ', '}then refined"
    work = StepWork.of(*node.lanes())
    ran = run_chunked(work, request.chunks) if refined or taken.ran is None else taken.ran
    assert request.machine is not None  # noqa: S101 (the request is for a machine)
    score = summarise(work.lanes, ran.step, request.machine)
    plain = planner.decided(node, claim)
    return replace(plain, baselines=taken.record, refined=refined, chunks=ran.chunks, score=score)


def _planned(request: Resolved, graph: LayerGraph) -> tuple[LevelPlanner, Node, Entrants]:
    """Return the planner of a request, its plan, and the baselines that compete."""
    if request.heterogeneous is not None:
        from hypar.planning.uneven.planner import Planner, entrants_of_groups  # noqa: PLC0415 (only for device groups)

        nodes = graph.nodes(request.graph)
        held = tuple(parse_pin(text, nodes, request.levels) for text in request.pins)
        planner = Planner.of(request, nodes, held, graph.element_bytes)
        return planner, planner.planned(nodes), entrants_of_groups
    question, pins, answer = searched(request, graph)
    alike = LevelPlanner(request, pins, graph.element_bytes, question)
    return alike, alike.answered(request, "", question.graph, 0, answer, question), entrants_alike


def _refined(
    planner: LevelPlanner, graph: LayerGraph, node: Node, progress: Callable[[int, int], None]
) -> tuple[Node, RefinementRecord]:
    """Return a node with choices exchanged against the engine, its shares held."""

    def seconds(chosen: Sequence[Options]) -> float:
        return StepWork.of(*node.taking(iter(chosen)).lanes()).run().timeline.makespan

    found = refine([*planner.slots(node)], seconds, progress)
    above = planner.state_above(graph.nodes(planner.request.graph))
    return planner.costed(node.taking(iter(found.choices)), above), found.record
