"""The amounts that a plan's own cost counts, for each transfer and level."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.setting import Setting
from hypar.planning.resolved import Resolved
from hypar.planning.stages.replay import stored_stages
from hypar.planning.uneven.replay import branch_of
from hypar.program.steps import Item
from hypar.schedule.lanes import Lane
from hypar.sharding.amounts.listing import amounts
from hypar.sharding.conventions import BY_LEVELS, DIRECT, FUSED, MOVED, PAPER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.machine import Machine
    from hypar.network.contraction import ContractedGraph
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.planning.stages.running import Staging
    from hypar.planning.stages.span import CutSpan
    from hypar.schedule.lanes import Crossing

Amounts = dict[Item, NDArray[np.float64]]
"""Bytes that each level moves, ``[levels]``, of each transfer."""

OTHERS = "other stages"
"""The other end of everything that a stage receives."""

RESULTS = {"forward": "output", "backward": "input", "gradient": "weight"}
"""The tensor whose partial sums a phase adds up."""


class _Free:
    """A machine whose links take no time: amounts do not depend on it."""

    measured = None

    def links(self, array: Sequence[int]) -> list[_Free]:
        """Return a link for each level."""
        return [self] * len(array)

    def seconds(self, *_: object) -> float:
        """Return no time."""
        return 0.0


def planned(
    plan: Plan, graph: LayerGraph, convention: str, machine: Machine | HeterogeneousMachine | None
) -> Amounts:
    """Return the bytes of a plan's transfers.

    Args:
        plan: the plan.
        graph: its network, whole or smaller.
        convention: the convention by which to count.
        machine: the machine of its score, for stages and for uneven shares.
    """
    nodes = graph.nodes(plan.graph)
    if isinstance(machine, HeterogeneousMachine) and plan.uneven and not plan.staged:
        lanes, crossings = branch_of(plan, machine, nodes, graph.element_bytes, "sgd", convention).lanes()
        levels = max(lane.depth + len(lane.setting.array) for lane in lanes)
        found = _of_groups(lanes, levels) if convention in {MOVED, FUSED} else _of_lanes(lanes, levels)
        return _with_crossings(found, lanes[0].graph, crossings, levels)
    if plan.stages is not None and plan.staged:
        request = Resolved.of(plan, machine)
        request = replace(request, counted=convention if convention in BY_LEVELS else PAPER)
        choices = [
            tuple(split.choice(layer) for split in plan.splits if layer in split.choices)
            for layer in plan.layers
        ]
        staging = stored_stages(plan, plan.stages, graph, choices, request)
        return _of_stages(staging, nodes)
    choices = [plan.choices(layer) for layer in plan.layers]
    if convention in {MOVED, FUSED}:
        return by_products(plan, graph, convention)
    setting = Setting(
        machine=cast("Machine", _Free()),
        array=tuple(plan.array),
        element_bytes=graph.element_bytes,
        direct=convention == DIRECT,
    )
    return _of_lanes([Lane(nodes, choices, setting)], len(plan.array))


def by_products(plan: Plan, graph: LayerGraph, convention: str) -> Amounts:
    """Return the bytes that products over levels count, by ``moved`` or ``fused``."""
    setting = Setting(
        machine=cast("Machine", _Free()),
        array=tuple(plan.array),
        element_bytes=graph.element_bytes,
        convention=convention,
    )
    choices = [plan.choices(layer) for layer in plan.layers]
    return _by_products(Lane(graph.nodes(plan.graph), choices, setting), 0)


def _by_products(lane: Lane, depth: int) -> Amounts:
    """Return the bytes that products over levels count for a lane with some levels above it."""
    found: Amounts = {}
    setting, levels = lane.setting, depth + len(lane.setting.array)
    for one in amounts(lane.graph, setting.array, lane.choices, setting.convention, lane.entered):
        if isinstance(one.layer, str):
            # The errors of all inputs of a product of activations are one item.
            item = Item(one.layer, None, one.phase, "input" if one.phase == "backward" else one.tensor)
        elif one.tensor == "output":
            item = Item(one.layer[0], None, one.phase, "output")
        else:
            item = Item(one.layer[1], one.layer[0], one.phase, "input")
        _add(found, item, depth + one.level, levels, one.elements * setting.element_bytes)
    return found


def _of_groups(lanes: Sequence[Lane], levels: int) -> Amounts:
    """Return the bytes that products count inside each group of identical devices, below uneven splits."""
    found: Amounts = {}
    for lane in lanes:
        for item, own in _by_products(lane, lane.depth).items():
            found.setdefault(item, np.zeros(levels))[: len(own)] += own
    return found


def _add(found: Amounts, item: Item, level: int, levels: int, num_bytes: float) -> None:
    if num_bytes:
        found.setdefault(item, np.zeros(levels))[level] += num_bytes


def _of_lanes(lanes: Sequence[Lane], levels: int) -> Amounts:
    """Return the bytes of the transfers inside each group of identical devices."""
    found: Amounts = {}
    for lane in lanes:
        layers = lane.graph.layers
        items = [
            (Item(layer.name, None, move.phase, RESULTS[move.phase]), move)
            for layer, moves in zip(layers, lane.inner, strict=True)
            for move in moves
        ]
        for edge, moves in zip(lane.graph.tensors, lane.outer, strict=True):
            ends = layers[edge.consumer].name, layers[edge.producer].name
            items += [(Item(*ends, move.phase, "input"), move) for move in moves]
        for item, move in items:
            _add(found, item, lane.depth + move.level, levels, move.total_bytes)
    return found


def _with_crossings(
    found: Amounts, graph: ContractedGraph, crossings: Sequence[Crossing], levels: int
) -> Amounts:
    """Add the bytes that groups of unlike devices receive from each other."""
    for crossing in crossings:
        inside = zip(graph.layers, crossing.inside, strict=True)
        items = [
            (Item(layer.name, None, amount.phase, RESULTS[amount.phase]), amount)
            for layer, added_up in inside
            for amount in added_up
        ]
        for edge, crossed in zip(graph.tensors, crossing.between, strict=True):
            ends = graph.layers[edge.consumer].name, graph.layers[edge.producer].name
            for amount in crossed:
                whole = Item(ends[1], None, amount.phase, "output")
                between = Item(*ends, amount.phase, "input")
                items.append((whole if amount.tensor == "output" else between, amount))
        for item, amount in items:
            elements = math.fsum(float(own) for own in amount.elements)
            _add(found, item, crossing.level, levels, elements * crossing.element_bytes)
    return found


def _of_stages(staging: Staging, nodes: ContractedGraph) -> Amounts:
    """Return the bytes of all stages in a mini-batch; those between stages are of a stage, not of one tensor."""
    found: Amounts = {}
    microbatches, outside = staging.microbatches, staging.request.outside
    lanes = [lane for span in staging.stages for lane in span.cuts.lanes]
    levels = 1 + max(lane.depth + len(lane.setting.array) for lane in lanes)
    size = lanes[0].setting.element_bytes
    owners, elsewhere = _shared(staging, nodes, found, levels)
    for number, span in enumerate(staging.stages):
        for item, own in _inside_stage(span, levels - 1).items():
            once = item.phase == "gradient"
            if once and item.layer in elsewhere:
                own[:outside] = 0.0
            key = item._replace(layer=owners.get(item.layer, item.layer)) if once else item
            times = 1 if once else microbatches
            found.setdefault(key, np.zeros(levels))[:] += times * np.insert(own, outside, 0.0)
        for phase, entering in (("forward", span.received), ("backward", span.returned)):
            own_seam = seam(number % staging.work.count, phase)
            _add(found, own_seam, outside, levels, microbatches * entering.from_stages)
            for arrival in entering.arrivals:
                if arrival.tensor is None:
                    continue
                edge = nodes.tensors[arrival.tensor]
                item = Item(
                    nodes.layers[edge.consumer].name, nodes.layers[edge.producer].name, phase, "input"
                )
                depth = span.cuts.lanes[arrival.lane].depth
                moved = [(depth + move.level, move.total_bytes) for move in arrival.moves]
                for crossing, amount, _ in arrival.crossed:
                    elements = math.fsum(map(float, amount.elements))
                    moved.append((span.cuts.crossings[crossing].level, size * elements))
                for level, num_bytes in moved:
                    _add(found, item, level + (level >= outside), levels, microbatches * num_bytes)
    return found


def _shared(
    staging: Staging, nodes: ContractedGraph, found: Amounts, levels: int
) -> tuple[dict[str, str], set[str]]:
    """Add the gradients that several stages add up, between these and outside them.

    Returns:
        For each layer that uses the weight of another the name of that one, and those of which another stage has it.
    """
    owners = {
        nodes.layers[tie.consumer].name: nodes.layers[tie.producer].name for tie in staging.stages[0].ties
    }
    elsewhere: set[str] = set()
    for exchange in staging.work.exchanges:
        owner, *users = (
            staging.stages[number].cuts.lane.graph.layers[layer].name for number, layer in exchange.members
        )
        elsewhere |= {*users}
        item = Item(owner, None, "gradient", "weight")
        num_bytes = math.fsum(one.from_stages for one in exchange.entering)
        _add(found, item, staging.request.outside, levels, num_bytes)
        for move in (move for moves in exchange.outside for move in moves):
            _add(found, item, move.level, levels, move.total_bytes)
    return owners, elsewhere


def _inside_stage(span: CutSpan, levels: int) -> Amounts:
    """Return the bytes of a microbatch inside a stage, the level of the stages left out."""
    lanes, crossings = span.cuts.lanes, span.cuts.crossings
    by_paper = lanes[0].setting.convention == PAPER
    found = _of_lanes(lanes, levels) if by_paper else _of_groups(lanes, levels)
    return _with_crossings(found, lanes[0].graph, crossings, levels)


def seam(stage: int, phase: str) -> Item:
    """Return the item of everything that a stage receives from other stages in a phase."""
    return Item(f"stage {stage + 1}", OTHERS, phase, "input")
