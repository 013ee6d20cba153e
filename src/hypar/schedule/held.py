"""The bytes that each device holds at its fullest moment over a step of a program, from what a run has written.

The walk over a stage's nodes is that of a score, with all rules of memory that training frameworks obey; the sizes of tensors are
the elements that each device had of the run's arrays, which steps name as ``lowering`` does. What no run has is counted otherwise:

- a backward phase needs what its op keeps, as autograd saves it, though a kernel may compute the same from what the op has read;
- sums take the place of terms, and what arrives lies in the buffer until then;
- a device copies nothing that it has made. What is brought to it is brought to each reader by itself: the program has a copy for
  each, whose elements are counted as they arrive, so that one does not stand for another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
from numpy.typing import NDArray

from hypar.network.nodes import Fused
from hypar.ops.nest import operand_name
from hypar.ops.run import Run
from hypar.program.steps import Add, Compute, Copy, Return, Update, exchanges_gradients
from hypar.schedule.lifetimes import Made, Moved, Reading, Span, course_by, nodes_of, of_stage
from hypar.schedule.liveness import held_at
from hypar.schedule.pipeline_orders import ALONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hypar.network.layer import Layer
    from hypar.network.nodes import FusedOp, PlanGraph, Tensor
    from hypar.ops.run import Piece
    from hypar.program.holding import Members
    from hypar.program.layout import Numbers
    from hypar.program.steps import Program, Step
    from hypar.schedule.lifetimes import Array, Node
    from hypar.schedule.pipeline_orders import Moment

Bytes = NDArray[np.float64]
"""Bytes on each device, ``[devices]``."""

Place = tuple[int, int]
"""A stage, and one of its parts."""

Flags = NDArray[np.bool_]
"""Whether something holds on each device, ``[devices]``."""

UNCOUNTED = frozenset({"bias", "statistics"})
"""The tensors that have no memory of their own in a plan."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Training:
    """A run of a step whose memory is counted.

    Attributes:
        program: the program of a microbatch.
        nodes: the plan graph of its network.
        elements: the elements that each device had of every array when it was written, by its name, ``[devices]``.
        received: what each device received for each transfer, by its number, ``[levels, devices]``.
        element_bytes: bytes of an element.
        state: numbers of the optimizer's state for each weight; a run of one step has none.
        chunks: the layers that exchange their gradients together, by name.
        places: the stage of each layer and its part of it; the first ones for a layer that is not named.
        stages: the stage of each device; nothing for a plan without stages.
        moments: for each stage those at which it holds most.
    """

    program: Program
    nodes: PlanGraph
    elements: Mapping[str, Numbers]
    received: Mapping[int, Bytes]
    element_bytes: int
    state: int = 0
    chunks: Sequence[frozenset[str]] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    stages: Sequence[int] = ()
    moments: Sequence[Sequence[Moment]] = (ALONE,)

    def held(self) -> dict[str, Bytes]:
        """Return the bytes that each device holds at its fullest moment, item by item as a score does."""
        devices = self.program.places.devices
        tensors, stages = np.zeros(devices), np.array(self.stages or (0,) * devices)
        for stage in range(len(self.moments)):
            own = np.flatnonzero(stages == stage)
            tensors[own] = self._peak(stage, own)
        return {
            "weights": self._weights,
            "gradients": self._weights,
            "optimizer": self.state * self._weights,
            "tensors": tensors,
            "buffers": self.element_bytes * _buffers(self),
        }

    @cached_property
    def _weights(self) -> Bytes:
        """The bytes of weights on each device."""
        weights = np.zeros(self.program.places.devices)
        for step in self.program.steps:
            if (
                isinstance(step, Update)
                and self.layers[step.layer].weighted
                and step.parameter not in UNCOUNTED
            ):
                weights += self.element_bytes * step.holding.elements
        return weights

    @cached_property
    def layers(self) -> Mapping[str, Layer]:
        """The layers of the network by name."""
        return {layer.name: layer for layer in self.program.graph.layers}

    @cached_property
    def ops(self) -> Mapping[tuple[str | None, int], Sequence[Layer]]:
        """The layer of each op, with those that view what it makes, by the name of its node and its number there, as ``Fused`` has them."""
        graph, found = self.program.graph, dict[tuple[str | None, int], list["Layer"]]()
        fused = Fused(graph.layers, {node.name: at for at, node in enumerate(self.nodes.layers)}, graph.batch)
        for layer in graph.layers:
            found.setdefault(fused.places[layer.name], []).append(layer)
        return found

    @cached_property
    def place_of(self) -> Mapping[str, Place]:
        """The stage and its part to which each layer belongs: an op without cuts to that of the tensor that it reads."""
        return {
            layer.name: self.places.get(node or "", (0, 0))
            for (node, _), own in self.ops.items()
            for layer in own
        }

    @cached_property
    def kept(self) -> Mapping[str, Bytes]:
        """The bytes that each layer that is trained keeps besides its inputs and outputs, on each device."""
        trained = {step.layer for step in self.program.steps if _is(step, "backward")}
        steps = [step for step in self.program.steps if _is(step, "forward") and step.layer in trained]
        return {step.layer: _kept_by(step, self) for step in steps}

    @cached_property
    def saved(self) -> Mapping[str, Members]:
        """The elements that each device reads of the arrays that ops keep."""
        return self._read("backward")

    @cached_property
    def samples(self) -> Mapping[str, Numbers]:
        """The elements of the samples, and of what ops without cuts make of them, that each device reads.

        A run gives every device all samples, which the first layers read from outside of the devices.
        """
        return {name: _counted(own) for name, own in self._read("forward").items()}

    def _read(self, kind: str) -> dict[str, Members]:
        """Return the elements that each device reads of the arrays of inputs forward, or of those that ops keep backward.

        What ops without cuts make of the samples is read as far as other layers read it.
        """
        batch, found = self.program.graph.batch, dict[str, "Members"]()
        ahead = {layer.name for (owner, _), own in self.ops.items() if owner is None for layer in own}
        for step in [own for own in reversed(self.program.steps) if _is(own, kind)]:
            layer = self.layers[step.layer]
            nest, pieces = layer.nest(batch), enumerate(step.pieces)
            if layer.name in ahead:
                pieces = enumerate(_pieces(layer, found.get(f"F {layer.name}")))
            for device, piece in pieces if kind == "forward" or nest.saved.input else ():
                if piece is not None:
                    run = Run(value=layer.op.value, nest=nest, pieces=[piece])
                    for number, mask in enumerate(run.reads()):
                        none = np.zeros((len(step.pieces), *mask.shape), bool)
                        found.setdefault(step.reads[operand_name(number)], none)[device] |= mask
        return found

    @cached_property
    def inside(self) -> Mapping[str, Flags]:
        """Whether each device has all that it needs of a transfer, by the array; sums that take the place of terms are there."""
        found = {}
        for step in self.program.transfers.values():
            if not exchanges_gradients(step) and step.item.tensor not in UNCOUNTED:
                pairs = zip(step.need.members, step.have.members, strict=True)
                lacks = np.any([(own & ~theirs).any(axis=1) for own, theirs in pairs], axis=0)
                found[step.target] = np.asarray(~lacks & (step.need.elements > 0))
                if isinstance(step, Add):
                    found[step.target] |= self.elements[step.target] >= self.elements[step.source]
        return found

    def _peak(self, stage: int, devices: NDArray[np.intp]) -> Bytes:
        """Return the most bytes of activations and errors at once on some devices, which are those of a stage."""
        of = [self.place_of[node.name] for node in self.nodes.layers]
        indices = [index for index, (own, _) in enumerate(of) if own == stage]
        own = {index: at for at, index in enumerate(indices)}
        firsts = {of[index][1]: Span(at, index) for at, index in reversed([*enumerate(indices)])}
        tensors = (tensor for tensor in self.nodes.tensors if {tensor.producer, tensor.consumer} & {*own})
        nodes = nodes_of(*of_stage(tuple(self.nodes.layers[index] for index in indices), own, tensors))
        inside = np.reshape([own[devices] for own in self.inside.values()], (-1, len(devices)))
        found = np.zeros(len(devices))
        for flags in np.unique(inside, axis=1).T:
            alike = (inside == flags[:, None]).all(axis=0)
            written = _Written(self, nodes, devices[alike], dict(zip(self.inside, flags, strict=True)))
            course = course_by(nodes, written, [firsts[part] for part in sorted(firsts)])
            found[alike] = held_at(course.pieces, self.moments[stage])
        return found


class _Written:
    """What devices that have what they need of the same transfers had of the tensors of a stage, as a run wrote them."""

    def __init__(
        self,
        run: Training,
        nodes: Sequence[Node],
        devices: NDArray[np.intp],
        inside: Mapping[str, np.bool_],
    ) -> None:
        self.run, self.nodes, self.devices, self.inside = run, nodes, devices, inside

    def _size(self, name: str) -> Bytes:
        """Return the bytes of an array; 0 for one that a run does not write, as it trains nothing before it."""
        found = self.run.elements.get(name, np.zeros(self.run.program.places.devices))
        return self.run.element_bytes * found[self.devices].astype(np.float64)

    def _moved(self, *names: str) -> list[Moved]:
        """Return those of some arrays that transfers write."""
        return [Moved(self._size(name), bool(self.inside[name])) for name in names if name in self.inside]

    def _name(self, node: Node, number: int) -> str:
        """Return the name of an op of a node."""
        return self.run.ops[node.node.name, number][0].name

    def _input(self, node: Node, number: int, at: int) -> str:
        """Return the name of an op and the number of an input, as arrays have them."""
        return f"{self._name(node, number)} {0 if number else node.reads[at].at}"

    def made(self, node: Node, number: int) -> Made:
        name, kept = self._name(node, number), None
        if name in self.run.kept and self.run.kept[name][self.devices].any():
            kept = self.run.kept[name][self.devices]
        summed, gathered = self._moved(f"sums {name}", f"F {name}"), self._moved(f"E all {name}")
        reads = range(1 if number else len(node.reads))
        return Made(
            self._size(f"terms {name}" if f"terms {name}" in self.run.elements else f"F {name}"),
            kept,
            next(iter(summed), None),
            next(iter(gathered), None),
            [self._reading(self._input(node, number, at)) for at in reads],
        )

    def _reading(self, name: str) -> Reading:
        there = f"in {name}" in self.inside
        inside = bool(self.inside[f"in {name}"]) if there else None
        size = self._size(f"in {name}" if there else f"E terms {name}")
        return Reading(size, inside, self._moved(f"E sums {name}", f"E {name}"))

    def ahead(self, _: Node, op: FusedOp) -> tuple[int, Bytes, Bytes | None]:
        name = self.run.program.graph.layers[op.target].name
        elements = self.run.samples.get(f"F {name}", np.zeros(self.run.program.places.devices))
        kept = self.run.kept[name][self.devices] if name in self.run.kept else None
        return 0, self.run.element_bytes * elements[self.devices].astype(np.float64), kept

    def arriving(self, _: Node, tensor: Tensor) -> Bytes:
        reader = self.run.nodes.layers[tensor.consumer - len(self.nodes)].name
        return self._size(f"E {reader} {tensor.at}")

    def together(self, arrays: Sequence[Array]) -> Bytes:
        """Return the bytes that are kept of arrays of one memory, each element once; of views with other dims those of the largest."""
        found: dict[tuple[int, ...], Members] = {}
        for name in {name for array in arrays for name in self._names(array)} & {*self.run.saved}:
            mask = self.run.saved[name][self.devices]
            found[mask.shape] = found.get(mask.shape, False) | mask
        none = np.zeros(len(self.devices))
        elements = np.max([none, *(_counted(mask) for mask in found.values())], axis=0)
        return np.asarray(self.run.element_bytes * elements, np.float64)

    def _names(self, array: Array) -> list[str]:
        """Return the names of an array, and of those that view it."""
        kind, layer, number = array
        node = self.nodes[layer]
        if kind in {"made", "samples"}:
            owner = node.node.name if kind == "made" else None
            return [f"F {own.name}" for own in self.run.ops[owner, number]]
        return [f"in {self._input(node, *((0, number) if kind == 'read' else (number, 0)))}"]


def _kept_by(step: Compute, run: Training) -> Bytes:
    """Return the bytes that an op keeps besides its inputs and outputs."""
    layer, batch = run.layers[step.layer], run.program.graph.batch
    keeps, size, shape = layer.nest(batch).saved, run.element_bytes, layer.shape
    num_bytes = (size * keeps.elements + keeps.mask_bytes) * _share(step, {"batch": batch, **shape})
    if keeps.statistics:
        num_bytes = num_bytes + size * keeps.statistics * _share(step, {"channels": shape["channels"]})
    return num_bytes


def _share(step: Compute, sizes: Mapping[str, int]) -> Bytes:
    """Return the fraction of some dims that each device computes; a dim that its piece does not name is whole."""
    found = np.zeros(len(step.pieces))
    for device, piece in enumerate(step.pieces):
        if piece is not None:
            dims = [dim for dim in sizes if dim in piece]
            found[device] = math.prod(len(piece[dim]) for dim in dims) / math.prod(sizes[dim] for dim in dims)
    return found


def _is(step: Step, kind: str) -> TypeGuard[Compute]:
    return isinstance(step, Compute) and step.kind == kind


def _counted(masks: Members) -> Numbers:
    """Return the elements of each device."""
    return np.asarray(masks.reshape(len(masks), -1).sum(axis=1))


def _pieces(layer: Layer, masks: Members | None) -> Iterator[Piece | None]:
    """Yield the pieces of an op that compute the elements that devices read of its output; None for none."""
    dims = ("batch", *layer.shape)
    for mask in () if masks is None else masks:
        others = [tuple(other for other in range(mask.ndim) if other != axis) for axis in range(mask.ndim)]
        own = {dim: np.flatnonzero(mask.any(axis=over)) for dim, over in zip(dims, others, strict=True)}
        yield own if mask.any() else None


def _buffers(run: Training) -> Bytes:
    """Return the room in elements of each device for the largest transfer.

    A transfer is what arrives for one tensor or one chunk of gradients at a level, as a collective is called for one of these; of
    what other stages have made everything that a phase needs, as its work begins when all of it is there.
    """
    together: dict[object, Bytes] = {}
    devices, transfers = run.program.places.devices, run.program.transfers
    for number, received in run.received.items():
        step = transfers[number]
        if step.item.tensor in UNCOUNTED:
            continue
        key: object = number
        if exchanges_gradients(step):
            key = next((chunk for chunk in run.chunks if step.item.layer in chunk), number)
        for level, own in enumerate(received):
            at = (step.item.phase, run.place_of[_to(step)]) if _crosses(step) else (level, key)
            together[at] = together.get(at, 0) + own
    return np.asarray(np.max([np.zeros(devices), *together.values()], axis=0))


def _to(step: Copy | Add) -> str:
    """Return the layer to whose stage a transfer comes."""
    return step.item.maker if step.item.maker and step.item.phase == "backward" else step.item.layer


def _crosses(step: Copy | Add) -> bool:
    """Return whether a transfer brings a tensor from one stage to another: no device has elements at both ends."""
    sums = isinstance(step, Add) and not isinstance(step, Return)
    return not (sums or step.have.meets(step.need))
