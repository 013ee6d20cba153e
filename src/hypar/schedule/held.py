"""The bytes that each device holds at its fullest moment over a step of a program, from what a run has written.

The walk over a stage's nodes is that of a score, with all rules of memory that training frameworks obey; the sizes of tensors are
the elements that each device had of the run's arrays, which steps name as ``lowering`` does. What no run has is counted otherwise:

- a backward phase needs what its op keeps, as autograd saves it, though a kernel may compute the same from what the op has read;
- sums take the place of terms, and what arrives lies in the buffer until then;
- a device copies nothing that it has made. What is brought to it is brought to each reader by itself: the program has a copy for
  each, whose elements are counted as they arrive, so that one does not stand for another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
from numpy.typing import NDArray

from hypar.ops.run import Run
from hypar.program.holding import cells
from hypar.program.steps import Add, Compute, Copy, Update, exchanges_gradients
from hypar.schedule.lifetimes import Moved, Span, course_by, nodes_of, of_stage
from hypar.schedule.liveness import held_at
from hypar.schedule.pipeline_orders import ALONE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer
    from hypar.network.nodes import FusedOp, PlanGraph, Tensor
    from hypar.ops.nest import Nest
    from hypar.program.layout import Numbers, Places
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
    """The setting of the step whose memory is counted.

    Attributes:
        program: the program of a microbatch.
        nodes: the plan graph of its network.
        element_bytes: bytes of an element.
        state: numbers of the optimizer's state for each weight; a run of one step has none.
        chunks: the layers that exchange their gradients together, by name.
        places: the stage of each layer and its part of it; the first ones for a layer that is not named.
        stages: the stage of each device; nothing for a plan without stages.
        moments: for each stage those at which it holds most.
    """

    program: Program
    nodes: PlanGraph
    element_bytes: int
    state: int = 0
    chunks: Sequence[frozenset[str]] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    stages: Sequence[int] = ()
    moments: Sequence[Sequence[Moment]] = (ALONE,)

    @cached_property
    def place_of(self) -> Mapping[str, Place]:
        """The stage and its part to which each layer belongs: an op without cuts to that of the tensor that it reads."""
        found: dict[str, Place] = {}
        for layer in self.program.graph.layers:
            before = found[layer.inputs[0]] if layer.inputs else (0, 0)
            found[layer.name] = self.places.get(layer.name, before)
        return found

    def place(self, step: Copy | Add | Compute) -> Place:
        """Return the stage and its part to which the layer belongs whose arrays a step writes."""
        if isinstance(step, Compute):
            return self.place_of[step.layer]
        item = step.item
        return self.place_of[item.maker if item.maker and item.phase == "backward" else item.layer]

    def held(self, elements: Mapping[str, Numbers], arrived: Mapping[int, Numbers]) -> dict[str, Bytes]:
        """Return the bytes that each device holds at its fullest moment, item by item as a score does.

        Args:
            elements: the elements that each device has of every array when it is written.
            arrived: what each device receives in a step, by its number, ``[levels, devices]``.
        """
        devices = self.program.places.devices
        tensors, stages = np.zeros(devices), np.array(self.stages or (0,) * devices)
        for stage in range(len(self.moments)):
            own = np.flatnonzero(stages == stage)
            tensors[own] = _Record(self, stage, elements).peak(own)
        return {
            "weights": self._weights,
            "gradients": self._weights,
            "optimizer": self.state * self._weights,
            "tensors": tensors,
            "buffers": self.element_bytes * _buffers(self, arrived),
        }

    @cached_property
    def _weights(self) -> Bytes:
        """The bytes of weights on each device."""
        layers = {layer.name: layer for layer in self.program.graph.layers}
        weights = np.zeros(self.program.places.devices)
        for step in self.program.steps:
            if isinstance(step, Update) and layers[step.layer].weighted and step.parameter not in UNCOUNTED:
                weights += self.element_bytes * step.holding.elements
        return weights


class _Record:
    """What a run has written of the tensors of a stage."""

    def __init__(self, training: Training, stage: int, elements: Mapping[str, Numbers]) -> None:
        program, graph = training.program, training.program.graph
        self.training, self.moments = training, training.moments[stage]
        self.devices = program.places.devices
        self.layers = {layer.name: layer for layer in graph.layers}
        self.trained = {step.layer for step in program.steps if _is(step, "backward")}
        self.forward = {step.layer: step for step in program.steps if _is(step, "forward")}
        self.elements, self.saved = {**elements, **_of_samples(program)}, _read(program, "backward")
        moved = (step for step in program.steps if isinstance(step, Copy | Add) and not _uncounted(step))
        self.inside = {step.target: self._inside(step) for step in moved}
        self.ops = _ops(graph, training.nodes)
        self.nodes, self.parts = self._of_stage(stage)

    def _inside(self, step: Copy | Add) -> Flags:
        """Return whether each device has all that it needs of a transfer; sums that take the place of terms are there."""
        pairs = zip(step.need.members, step.have.members, strict=True)
        lacks = np.any([(own & ~theirs).any(axis=1) for own, theirs in pairs], axis=0)
        found = ~lacks & (step.need.elements > 0)
        if isinstance(step, Add):
            found |= self.elements[step.target] >= self.elements[step.source]
        return np.asarray(found)

    def _of_stage(self, stage: int) -> tuple[tuple[Node, ...], list[Span]]:
        """Return the nodes of the stage, and its parts."""
        graph, places = self.training.nodes, self.training.places
        of = [places.get(node.name, (0, 0)) for node in graph.layers]
        indices = [index for index, (own, _) in enumerate(of) if own == stage]
        own = {index: at for at, index in enumerate(indices)}
        tensors = (tensor for tensor in graph.tensors if tensor.producer in own or tensor.consumer in own)
        layers = tuple(graph.layers[index] for index in indices)
        firsts = {of[index][1]: Span(at, index) for at, index in reversed([*enumerate(indices)])}
        return nodes_of(*of_stage(layers, own, tensors)), [firsts[part] for part in sorted(firsts)]

    def peak(self, devices: NDArray[np.intp]) -> Bytes:
        """Return the most bytes of activations and errors at once on each of the stage's devices."""
        inside = np.reshape([own[devices] for own in self.inside.values()], (-1, len(devices)))
        found = np.zeros(len(devices))
        for flags in np.unique(inside, axis=1).T:
            alike = (inside == flags[:, None]).all(axis=0)
            written = _Written(self, devices[alike], dict(zip(self.inside, flags, strict=True)))
            found[alike] = held_at(course_by(self.nodes, written, self.parts).pieces, self.moments)
        return found


class _Written:
    """What devices that have what they need of the same transfers had of the tensors of a stage, as a run wrote them."""

    def __init__(self, record: _Record, devices: NDArray[np.intp], inside: Mapping[str, bool]) -> None:
        self.record, self.devices, self.flags = record, devices, inside

    def _size(self, name: str) -> Bytes:
        """Return the bytes of an array; 0 for one that a run does not write, as it trains nothing before it."""
        found = self.record.elements.get(name, np.zeros(self.record.devices))[self.devices]
        return self.record.training.element_bytes * found.astype(np.float64)

    def _moved(self, name: str) -> Moved | None:
        return Moved(self._size(name), bool(self.flags[name])) if name in self.flags else None

    def _layer(self, node: Node, number: int) -> Layer:
        """Return the layer of an op of a node."""
        return self.record.ops[node.node.name, number][0]

    def _input(self, node: Node, number: int, at: int) -> tuple[Layer, int]:
        """Return the layer of an op, and the number of an input of it."""
        layer = self._layer(node, number)
        if number:
            return layer, 0
        tensors = [(own.producer, own.number) for own in node.reads[: at + 1]]
        maker = self._maker(node.reads[at])
        return layer, self._inputs(layer, maker)[tensors.count(tensors[at]) - 1]

    def _maker(self, tensor: Tensor) -> tuple[str, int]:
        """Return the node that makes a tensor that a node reads, and the number of the tensor there."""
        own = tensor.producer
        network = self.record.training.nodes.layers
        maker = self.record.nodes[own].node if own >= 0 else network[-1 - own]
        return maker.name, tensor.number

    def _inputs(self, layer: Layer, maker: tuple[str, int]) -> list[int]:
        """Return the numbers of the inputs of a layer that are a tensor of a node."""
        names = {own.name for own in self.record.ops[maker]}
        return [number for number, name in enumerate(layer.inputs) if name in names]

    def samples(self, _: Node) -> int:
        """Return the same for all nodes: a run has the samples once."""
        return 0

    def ahead(self, _: Node, op: FusedOp) -> tuple[Bytes, Bytes | None]:
        """Return the bytes that are read of an op ahead of a node, and of what it keeps."""
        layer = self.record.training.program.graph.layers[op.target]
        return self._size(f"F {layer.name}"), self._kept(layer)

    def made(self, node: Node, number: int) -> Bytes:
        """Return the bytes of the tensor that an op has made."""
        name = self._layer(node, number).name
        return self._size(f"terms {name}" if f"terms {name}" in self.record.elements else f"F {name}")

    def kept(self, node: Node, number: int) -> Bytes | None:
        """Return the bytes that an op keeps besides its tensors."""
        return self._kept(self._layer(node, number))

    def _kept(self, layer: Layer) -> Bytes | None:
        step = self.record.forward.get(layer.name)
        if step is None or layer.name not in self.record.trained:
            return None
        training = self.record.training
        found = _kept_by(step, layer, layer.nest(training.program.graph.batch), training)[self.devices]
        return found if found.any() else None

    def summed(self, node: Node, number: int) -> Moved | None:
        """Return the sums of an op's terms."""
        name = self._layer(node, number).name
        return self._moved(f"sums {name}") or self._moved(f"F {name}")

    def read(self, node: Node, number: int, at: int) -> Moved | None:
        """Return a tensor as an op reads it."""
        layer, place = self._input(node, number, at)
        return self._moved(f"in {layer.name} {place}")

    def sent(self, node: Node, number: int, at: int) -> Bytes:
        """Return the bytes of the error of a tensor that an op has read."""
        layer, place = self._input(node, number, at)
        return self._size(f"E terms {layer.name} {place}")

    def gathered(self, node: Node, number: int) -> Moved | None:
        """Return the error of an op's terms."""
        return self._moved(f"E all {self._layer(node, number).name}")

    def returned(self, node: Node, number: int, at: int) -> Sequence[Moved]:
        """Return the error of a tensor that an op has read as it came to those that have made it."""
        layer, place = self._input(node, number, at)
        names = [f"E sums {layer.name} {place}", f"E {layer.name} {place}"]
        return [moved for name in names if (moved := self._moved(name)) is not None]

    def arrived(self, node: Node, at: int) -> Bytes:
        """Return the bytes of a tensor that a node has read of another stage."""
        layer, place = self._input(node, 0, at)
        return self._size(f"in {layer.name} {place}")

    def arriving(self, node: Node, tensor: Tensor) -> Bytes:
        """Return the bytes of the error that another stage has sent."""
        training = self.record.training
        reader = self.record.layers[training.nodes.layers[tensor.consumer - len(self.record.nodes)].name]
        place = self._inputs(reader, (node.node.name, tensor.number))[0]
        return self._size(f"E {reader.name} {place}")

    def together(self, arrays: Sequence[Array]) -> Bytes:
        """Return the bytes that are kept of arrays of one memory, each element once; of views with other dims those of the largest."""
        found: dict[tuple[int, ...], NDArray[np.bool_]] = {}
        for name in {name for array in arrays for name in self._names(array)} & {*self.record.saved}:
            mask = self.record.saved[name][self.devices]
            found[mask.shape] = found.get(mask.shape, False) | mask
        none = np.zeros(len(self.devices))
        elements = np.max([none, *(_counted(mask) for mask in found.values())], axis=0)
        return np.asarray(self.record.training.element_bytes * elements, np.float64)

    def _names(self, array: Array) -> list[str]:
        """Return the names of an array, and of those that view it."""
        kind, layer, number = array
        if kind == "samples":
            return [f"F {own.name}" for own in self.record.ops["", number]]
        node = self.record.nodes[layer]
        if kind == "made":
            return [f"F {own.name}" for own in self.record.ops[node.node.name, number]]
        reader, place = self._input(node, *((0, number) if kind == "read" else (number, 0)))
        return [f"in {reader.name} {place}"]


def _ops(graph: LayerGraph, nodes: PlanGraph) -> dict[tuple[str, int], list[Layer]]:
    """Return the layer of each op, with those that view what it makes, by the name of its node and its number there.

    Those between the network's input and its first nodes have no name, and their numbers in the network.
    """
    found: dict[tuple[str, int], list[Layer]] = {}
    at: dict[str, tuple[str, int]] = {}
    names = {node.name for node in nodes.layers}
    for index, layer in enumerate(graph.layers):
        owner, number = at[layer.inputs[0]] if layer.inputs else ("", index)
        if layer.name in names:
            owner, number = layer.name, 0
        elif layer.inputs and not layer.nest(graph.batch).view:
            number = sum(own == owner for own, _ in found) if owner else index
        at[layer.name] = owner, number
        found.setdefault((owner, number), []).append(layer)
    return found


def _uncounted(step: Copy | Add | Compute) -> bool:
    """Return whether a step is about gradients, statistics or biases, whose memory a plan counts otherwise or not at all."""
    if isinstance(step, Compute):
        return step.kind in {"statistics", "tied"}
    return exchanges_gradients(step) or step.item.tensor in UNCOUNTED


def _kept_by(step: Compute, layer: Layer, nest: Nest, training: Training) -> Bytes:
    """Return the bytes that an op keeps besides its inputs and outputs."""
    keeps, size, shape = nest.saved, training.element_bytes, layer.shape
    share = _share(step, "batch", *shape) / (training.program.graph.batch * np.prod([*shape.values()]))
    num_bytes = (size * keeps.elements + keeps.mask_bytes) * share
    if keeps.statistics:
        num_bytes = num_bytes + size * keeps.statistics * _share(step, "channels") / shape["channels"]
    return num_bytes


def _share(step: Compute, *dims: str) -> Bytes:
    """Return the elements of some dims that each device computes."""
    return np.array(
        [
            0.0 if piece is None else np.prod([float(len(piece[dim])) for dim in dims if dim in piece])
            for piece in step.pieces
        ]
    )


def _is(step: Step, kind: str) -> TypeGuard[Compute]:
    return isinstance(step, Compute) and step.kind == kind


def _of_samples(program: Program) -> dict[str, Numbers]:
    """Return the elements of the samples, and of what ops without cuts make of them, that each device reads.

    A run gives every device all samples, which the first layers read from outside of the devices.
    """
    names = {f"F {name}" for name in _ahead(program.graph)}
    return {name: _counted(own) for name, own in _read(program, "forward").items() if name in names}


def _read(program: Program, kind: str) -> dict[str, NDArray[np.bool_]]:
    """Return the elements that each device reads of the arrays of inputs forward, or of those that ops keep backward.

    What ops without cuts make of the samples is read as far as other layers read it: a run gives every device all samples, which
    the first layers read from outside of the devices.
    """
    layers, batch = {layer.name: layer for layer in program.graph.layers}, program.graph.batch
    ahead = _ahead(program.graph)
    found: dict[str, NDArray[np.bool_]] = {}
    for step in reversed(program.steps):
        if not isinstance(step, Compute) or step.kind != kind:
            continue
        layer = layers[step.layer]
        if kind == "backward" and not layer.nest(batch).saved.input:
            continue
        for device, own in enumerate(step.pieces):
            piece = own if layer.name not in ahead else _piece(layer, found.get(f"F {layer.name}"), device)
            if own is None or piece is None:
                continue
            for number, mask in enumerate(
                Run(value=layer.op.value, nest=layer.nest(batch), pieces=[piece]).reads()
            ):
                name = step.reads[f"input {number}"]
                found.setdefault(name, np.zeros((len(step.pieces), *mask.shape), bool))[device] |= mask
    return found


def _ahead(graph: LayerGraph) -> set[str]:
    """Return the network's inputs, and the ops without cuts behind them."""
    found: set[str] = set()
    for layer in graph.layers:
        if not layer.inputs or (layer.op.node not in {"weight", "join"} and layer.inputs[0] in found):
            found.add(layer.name)
    return found


def _counted(masks: NDArray[np.bool_]) -> Numbers:
    """Return the elements of each device."""
    return np.asarray(masks.reshape(len(masks), -1).sum(axis=1))


def _piece(layer: Layer, masks: NDArray[np.bool_] | None, device: int) -> dict[str, NDArray[np.intp]] | None:
    """Return the piece of an op that computes the elements that a device reads of its output; None for none."""
    if masks is None or not masks[device].any():
        return None
    mask, dims = masks[device], ("batch", *layer.shape)
    others = [tuple(other for other in range(mask.ndim) if other != axis) for axis in range(mask.ndim)]
    return {dim: np.flatnonzero(mask.any(axis=over)) for dim, over in zip(dims, others, strict=True)}


def _buffers(training: Training, arrived: Mapping[int, Numbers]) -> Bytes:
    """Return the room in elements of each device for the largest transfer.

    A transfer is what arrives for one tensor or one chunk of gradients at a level, as a collective is called for one of these; of
    what other stages have made everything that a phase needs, as its work begins when all of it is there.
    """
    together: dict[object, Bytes] = {}
    places, transfers = training.program.places, training.program.transfers
    for number, received in arrived.items():
        step = transfers[number]
        if step.item.tensor in UNCOUNTED:
            continue
        key: object = number
        if exchanges_gradients(step):
            key = next((chunk for chunk in training.chunks if step.item.layer in chunk), number)
        each = _copied(places, step) if isinstance(step, Copy) else _added(training, step, received)
        for level, own in enumerate(each):
            at = (step.item.phase, training.place(step)) if _crosses(step) else (level, key)
            together[at] = together.get(at, 0) + own
    return np.asarray(np.max([np.zeros(places.devices), *together.values()], axis=0))


def _crosses(step: Copy | Add) -> bool:
    """Return whether a transfer brings a tensor from one stage to another: no device has elements at both ends."""
    return isinstance(step, Copy) and not step.have.meets(step.need)


def _copied(places: Places, step: Copy) -> NDArray[np.float64]:
    """Return the elements that each device receives at each level: those that come to a part it shares with its others.

    What several devices of a part lack comes to the part once, to each of them as much of it; the rest comes from the others.
    """
    (held, needed), weights = cells(step.have, step.need)
    each, before = needed & ~held, np.zeros(needed.shape)
    aside, found = tuple(range(1, needed.ndim)), np.zeros((len(places.parts), places.devices))
    for level in range(len(places.parts)):
        now = np.zeros(needed.shape)
        for part in places.members(level):
            lacking = each[part] & ~held[part].any(axis=0)
            now[part] = lacking / np.maximum(lacking.sum(axis=0), 1)
        found[level] = ((now - before) * weights).sum(axis=aside)
        before = now
    return found


def _added(training: Training, step: Add, arrived: Numbers) -> NDArray[np.float64]:
    """Return the elements of sums and their terms that each device receives at each level.

    Each part that has terms or needs sums gets the same, but for stages what comes to them; its devices share it by the sums that
    they need.
    """
    found = np.zeros(arrived.shape)
    stages = np.array(training.stages or (0,) * arrived.shape[1])
    for level, own in enumerate(arrived):
        for members, inside in training.program.places.inside[level]:
            sizes = [_size(step, part) for part in inside]
            parts = [(part, size) for part, size in zip(inside, sizes, strict=True) if size.any()]
            for part, size in parts:
                apart = len({*stages[members].tolist()}) > 1
                total = own[part].sum() if apart else own[members].sum() / len(parts)
                found[level, part] = total * size / size.sum()
    return found


def _size(step: Add, part: Numbers) -> Numbers:
    """Return the elements of sums that each device of a part needs, or of its terms if it needs none."""
    need = step.need.elements[part]
    return need if need.any() else step.have.elements[part]
