"""The bytes that each device holds at its fullest moment over a step of a program, from what a run has written.

The walk over a stage's layers is that of a score, with all rules of memory that training frameworks obey; the sizes of arrays are
the elements that each device had of them in the run, which steps name as ``lowering`` does. What no run has is counted otherwise:
a backward phase needs what its op keeps, as autograd saves it, though a kernel may compute the same from what the op has read, and
what arrives, or is summed in place of terms, lies in one buffer until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.execution.exchange import shares
from hypar.network.nodes import computed_again, kept_in_shards
from hypar.network.training import formats_of
from hypar.planning.stages.running import fullest_moments
from hypar.schedule.lifetimes import Arrays, ops_of
from hypar.schedule.pipeline_orders import ALONE, Moment
from hypar.sharding.tree import Device, Level, Node, Stages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.nodes import PlanGraph
    from hypar.network.training import Formats
    from hypar.plan.plan import Plan
    from hypar.plan.records import Score
    from hypar.plan.stages import StagesRecord
    from hypar.program.lowering import Program
    from hypar.sharding.layout import Numbers

ROUNDING = 1e-9
"""The fraction of a score's bytes that is rounding."""

UNCOUNTED = frozenset({"bias", "statistics"})
"""The tensors that have no memory of their own in a plan."""

Bytes = NDArray[np.float64]
"""Bytes, or elements, on each device, ``[devices]``."""

Place = tuple[int, int]
"""A stage, and one of its parts."""


class Held(NamedTuple):
    """The memory of the fullest device of a group, a stage or ``all``: the bytes that a score says, and those that it held."""

    group: str
    said: float
    held: float

    @property
    def more(self) -> bool:
        """Whether a device held more than the score says."""
        return self.held > self.said * (1 + ROUNDING)


def held_by(
    plan: Plan,
    score: Score,
    program: Program,
    elements: Mapping[str, Numbers],
    arrived: Mapping[int, Numbers],
) -> list[Held]:
    """Return what each group or stage of a score, of the network that was run, held in the run of a microbatch.

    ``elements`` has those that each device had of every array, by the array's name; ``arrived`` those that it received for each
    transfer, by its number, ``[levels, devices]``.
    """
    places, stages = _places(plan.root), plan.stages if plan.staged else None
    nodes = program.graph.nodes(plan.graph)
    formats = formats_of(plan.training.precision, program.graph.element_bytes)
    parts = {} if stages is None else _parts(stages)
    place_of = {op.name: parts.get(node.name, (0, 0)) for node in nodes.layers for op in node.ops}
    of = np.array([stage for stage, _ in places])
    chunks = [frozenset(chunk) for chunk in plan.chunks.layers] if plan.chunks else []
    received = {at: shares(program.places, step, arrived[at], of) for at, step in program.transfers.items()}
    buffers = _buffers(program, received, chunks, place_of, formats)
    found, whole = _weights(program, nodes, elements, formats, score.optimizer)
    found, again = found + buffers, computed_again(program.graph.layers, plan.training.recompute)
    shards = kept_in_shards(program.graph.layers, plan.training.recompute)
    for stage, moments in enumerate(
        [ALONE] if stages is None else fullest_moments(stages, len(stages.stages))
    ):
        found += (of == stage) * _peak(
            program, nodes, elements, stage, place_of, moments, formats, whole, again, shards
        )
    if score.groups is None:
        return [Held("all", score.memory_bytes, float(found.max()))]
    groups = [group.group for group in score.groups]
    names = groups if stages is not None else [group.name for group in plan.groups if not group.idle]
    lanes = sorted({*places})
    named = np.array([names[lanes.index(place)] for place in places])
    pairs = [(group, found[named == group.group]) for group in score.groups]
    return [Held(group.group, group.memory_bytes, float(own.max())) for group, own in pairs if len(own)]


def _places(node: Node | None) -> list[tuple[int, tuple[int, ...]]]:
    """Return the stage of each device, and the parts of uneven splits in which it lies."""
    if node is None or isinstance(node, Device):
        return [(0, ())]
    if isinstance(node, Level) and node.split.sides is None:
        return _places(node.below[0]) * node.split.ways
    parts = [(part, own) for part, own in enumerate(node.below) if own is not None]
    below = [(part, *place) for part, own in parts for place in _places(own)]
    if isinstance(node, Stages):
        return [(part, path) for part, _, path in below]
    return [(stage, (part, *path)) for part, stage, path in below]


def _parts(stages: StagesRecord) -> dict[str, Place]:
    spans = ((at, *own) for at, stage in enumerate(stages.stages) for own in enumerate(stage.spans))
    return {layer: (number, part) for number, part, span in spans for layer in span}


def _weights(
    program: Program, nodes: PlanGraph, elements: Mapping[str, Numbers], formats: Formats, optimizer: str
) -> tuple[Bytes, dict[tuple[str, str], Bytes]]:
    """Return the bytes of weights, gradients and optimizer state on each device, and the weights in shares, as of ``Arrays``."""
    weighted, found = {node.name for node in nodes.layers if node.weighted}, np.zeros(program.places.devices)
    summed = {step.target: step for step in program.transfers.values() if step.item.phase == "gradient"}
    whole = dict[tuple[str, str], Bytes]()
    for step in program.updates:
        if step.layer in weighted and step.parameter not in UNCOUNTED:
            name, gradient, updated = step.layer, step.holding, step.rest or step.holding
            if step.gradient in summed and not summed[step.gradient].once:
                gradient = updated
                whole[name, "gradient"] = (
                    formats.gradient * elements[f"d terms {name} {step.parameter}"]
                ).astype(float)
                if (needed := elements.get(f"W forward {name}")) is not None:
                    whole[name, "weight"] = (formats.weight * needed).astype(float)
            found += formats.weight * step.holding.elements + formats.gradient * gradient.elements
            found += formats.kept(optimizer) * updated.elements
    return found, whole


def _peak(
    program: Program,
    nodes: PlanGraph,
    elements: Mapping[str, Numbers],
    stage: int,
    place_of: Mapping[str, Place],
    moments: Sequence[Moment],
    formats: Formats,
    whole: Mapping[tuple[str, str], Bytes],
    again: frozenset[str],
    shards: frozenset[str],
) -> Bytes:
    """Return the most bytes of activations and errors at once on the devices, if they are those of a stage."""
    of, places = [place_of[node.name] for node in nodes.layers], dict[int, list[int]]()
    for at, (its, part) in enumerate(of):
        if its == stage:
            places.setdefault(part, []).append(at)
    sent = tuple(
        (tensor.producer, tensor.number, tensor.consumer)
        for tensor in nodes.tensors
        if of[tensor.producer][0] == stage != of[tensor.consumer][0]
    )
    parts = tuple((own[0], tuple(nodes.layers[at] for at in own)) for _, own in sorted(places.items()))
    arrays = Arrays(ops_of(parts, sent), program.fragments, formats, elements, whole, again, shards)
    each = arrays.course(len(parts)).held(moments)[1]
    return np.asarray(np.broadcast_to(each[arrays.kinds[0]], program.places.devices))


def _buffers(
    program: Program,
    received: Mapping[int, Bytes],
    chunks: Sequence[frozenset[str]],
    place_of: Mapping[str, Place],
    formats: Formats,
) -> Bytes:
    """Return the room in bytes of each device for the largest transfer, from what each has ``received``, ``[levels, devices]``.

    A transfer is what arrives for one tensor or one chunk of gradients at a level, as a collective is called for one of these; of
    what other stages have made everything that a phase needs, as its work begins when all of it is there.
    """
    together: dict[object, Bytes] = {}
    for number, step in program.transfers.items():
        item, moved = step.item, step.transfer
        if item.tensor in UNCOUNTED:
            continue
        key: object = number
        if item.phase == "gradient":
            key = next((chunk for chunk in chunks if item.layer in chunk), number)
        reader = item.maker if item.maker and item.phase == "backward" else item.layer
        # Between stages no device has elements at both ends.
        crosses = moved.kind != "add" and not moved.have.meets(moved.need)
        for level, own in enumerate(received[number]):
            at = (item.phase, place_of[reader]) if crosses else (level, key)
            together[at] = together.get(at, 0) + formats.of(item.phase) * own
    return np.asarray(np.max([np.zeros(program.places.devices), *together.values()], axis=0))
