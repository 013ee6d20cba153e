"""The amounts that a plan's own cost counts, for each transfer and level."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.setting import Setting
from hypar.planning.request import Request
from hypar.planning.stages.replay import stored_stages
from hypar.planning.uneven.replay import branch_of
from hypar.planning.uneven.tree import lanes_of
from hypar.program.steps import Item
from hypar.schedule.lanes import Lane
from hypar.schedule.moves import moves_between, moves_inside
from hypar.sharding.amounts.above import below_level, outermost
from hypar.sharding.amounts.factors import factors_of
from hypar.sharding.amounts.inside import added
from hypar.sharding.amounts.products import received
from hypar.sharding.conventions import DIRECT, FUSED, MOVED
from hypar.sharding.levels import TENSORS, levels_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.machine import Machine
    from hypar.network.contraction import ContractedGraph
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.planning.stages.span import CutSpan
    from hypar.schedule.lanes import Crossing
    from hypar.sharding.placement import Options

Amounts = dict[Item, NDArray[np.float64]]
"""Bytes that each level moves, ``[levels]``, of each transfer."""

RESULTS = {"forward": "output", "backward": "input", "gradient": "weight"}
"""The tensor whose partial sums a phase adds up."""

PHASES = {tensor: phase for phase, tensor in RESULTS.items()}


class _Free:
    """A machine whose links take no time: amounts do not depend on it."""

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
    if isinstance(machine, HeterogeneousMachine) and plan.heterogeneous:
        lanes, crossings = lanes_of(branch_of(plan, machine, nodes, graph.element_bytes, "sgd"))
        levels = max(lane.depth + len(lane.setting.array) for lane in lanes)
        return _with_crossings(_of_lanes(lanes, levels), lanes[0].graph, crossings, levels)
    choices = [plan.choices(layer) if plan.splits else () for layer in plan.layers]
    if plan.stages is not None and plan.staged:
        request = Request.of(plan, machine)
        staging = stored_stages(plan, plan.stages, graph, choices, request)
        return _of_stages(staging.stages, staging.microbatches, len(plan.array) + 1)
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
    nodes, size = graph.nodes(plan.graph), graph.element_bytes
    found: Amounts = {}
    above = outermost(nodes, convention)
    names = [layer.name for layer in nodes.layers]
    reducers = _reducers(graph, {*names})
    for level in levels_of(tuple(plan.array), size):
        options: list[Options] = [(plan.choices(name)[level.index],) for name in names]
        for number, layer in enumerate(nodes.layers):
            sums = added(layer.einsum, options[number], above[number], level, above.flows.sums[number])
            for tensor, own in zip(TENSORS, sums.reshape(len(TENSORS)).tolist(), strict=True):
                item = Item(layer.name, None, PHASES[tensor], tensor)
                _add(found, item, level.index, len(plan.array), own * size)
        for number, edge in enumerate(nodes.tensors):
            ends = (nodes.layers[edge.producer].einsum, nodes.layers[edge.consumer].einsum)
            pair = (options[edge.producer], options[edge.consumer])
            growth = factors_of(ends, above.between[number], pair, above[edge.consumer], level.ways).growth
            maker, reader = names[edge.producer], names[edge.consumer]
            for part in above.parts[number]:
                item = Item(reader, maker, part.phase, "input")
                if part.tensor == "output":
                    item = Item(maker, None, part.phase, "output")
                elif part.manner == "sums":
                    item = Item(reducers.get(maker, maker), None, "forward", "output")
                elements = float(received(part, above.products[number], growth).reshape(-1)[0])
                _add(found, item, level.index, len(plan.array), elements * size)
        above = below_level(nodes, above, options, level.ways)
    return found


def _reducers(graph: LayerGraph, planned_layers: set[str]) -> dict[str, str]:
    """Return the op without choices behind each planned layer that sums up an image."""
    source: dict[str, str] = {}
    found: dict[str, str] = {}
    for layer in graph.layers:
        here = layer.name in planned_layers
        source[layer.name] = (
            layer.name if here or not layer.inputs else source.get(layer.inputs[0], layer.name)
        )
        if not here and layer.inputs and layer.op.contracts(layer.input_shapes):
            found.setdefault(source[layer.name], layer.name)
    return found


def _add(found: Amounts, item: Item, level: int, levels: int, num_bytes: float) -> None:
    if num_bytes:
        found.setdefault(item, np.zeros(levels))[level] += num_bytes


def _of_lanes(lanes: Sequence[Lane], levels: int) -> Amounts:
    """Return the bytes of the transfers inside each group of identical devices."""
    found: Amounts = {}
    for lane in lanes:
        layers = lane.graph.layers
        for layer, chosen in zip(layers, lane.choices, strict=True):
            if not layer.empty:
                for move in moves_inside(lane.setting, layer.einsum, layer.output_elements, chosen):
                    item = Item(layer.name, None, move.phase, RESULTS[move.phase])
                    _add(found, item, lane.depth + move.level, levels, move.total_bytes)
        for edge in lane.graph.tensors:
            made, read = layers[edge.producer], layers[edge.consumer]
            if made.empty or read.empty:
                continue
            pair = (lane.choices[edge.producer], lane.choices[edge.consumer])
            for move in moves_between(lane.setting, (made.einsum, read.einsum), edge.content, pair):
                item = Item(read.name, made.name, move.phase, "input")
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
            for layer, amounts in inside
            for amount in amounts
        ]
        for edge, amounts in zip(graph.tensors, crossing.between, strict=True):
            ends = graph.layers[edge.consumer].name, graph.layers[edge.producer].name
            items += [(Item(*ends, amount.phase, "input"), amount) for amount in amounts]
        for item, amount in items:
            elements = math.fsum(float(own) for own in amount.elements)
            _add(found, item, crossing.level, levels, elements * crossing.element_bytes)
    return found


def _of_stages(stages: Sequence[CutSpan], microbatches: int, levels: int) -> Amounts:
    """Return the bytes of all stages in a mini-batch; those between stages are of a stage, not of one tensor."""
    found: Amounts = {}
    for number, span in enumerate(stages):
        inside = span.cuts.lane._replace(depth=1)
        for item, own in _of_lanes([inside], levels).items():
            times = 1 if item.phase == "gradient" else microbatches
            found[item] = found.get(item, np.zeros(levels)) + times * own
        for phase, num_bytes in (("forward", span.received_bytes), ("backward", span.returned_bytes)):
            _add(found, seam(number, phase), 0, levels, microbatches * num_bytes)
    return found


def seam(stage: int, phase: str) -> Item:
    """Return the item of everything that a stage receives from other stages in a phase."""
    return Item(f"stage {stage + 1}", "other stages", phase, "input")
