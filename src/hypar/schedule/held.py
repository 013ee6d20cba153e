"""The bytes that each device holds at its fullest moment over a step of a program.

The steps of a program are ops that read and write arrays, whose liveness it is. The rest are rules of memory that training
frameworks obey; each stands where it is applied:

- a backward phase needs what its op keeps, as autograd saves it, though a kernel may compute the same from what the op has read;
- a view, a bias, an addition and a concatenation take no memory of their own, forward or backward;
- of a tensor that ops keep in part, the parts are copied before it is freed, at the end of its last use, each element once;
- a stage hands on what its later parts send back before it takes what other stages send, so that these are added in the buffer;
- a slice of an error keeps the memory of the whole, and nothing is added to an error that a join has passed on to several inputs;
- sums take the place of terms, and what arrives lies in the buffer until then;
- a device copies nothing that it has made. What is brought to it is brought to each reader by itself: the program has a copy for
  each, whose elements are counted as they arrive, so that one does not stand for another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
from numpy.typing import NDArray

from hypar.ops.nest import operand_name
from hypar.ops.run import Run
from hypar.program.holding import cells
from hypar.program.steps import Add, Compute, Copy, Update, exchanges_gradients
from hypar.schedule.liveness import Ledger, held_at
from hypar.schedule.pipeline_orders import ALONE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer
    from hypar.ops.nest import Nest
    from hypar.program.layout import Numbers, Places
    from hypar.program.steps import Program, Step
    from hypar.schedule.liveness import Piece
    from hypar.schedule.pipeline_orders import Moment

Bytes = NDArray[np.float64]
"""Bytes on each device, ``[devices]``."""

Place = tuple[int, int]
"""A stage, and one of its parts."""

_Piece = tuple[bool, int]
"""A piece of work: whether it is backward, and the part, negative there, so that pieces sort in their order."""

Flags = NDArray[np.bool_]
"""Whether something holds on each device, ``[devices]``."""

UNCOUNTED = frozenset({"bias", "statistics"})
"""The tensors that have no memory of their own in a plan."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Training:
    """The setting of the step whose memory is counted.

    Attributes:
        program: the program of a microbatch.
        element_bytes: bytes of an element.
        state: numbers of the optimizer's state for each weight; a run of one step has none.
        chunks: the layers that exchange their gradients together, by name.
        places: the stage of each layer and its part of it; the first ones for a layer that is not named.
        stages: the stage of each device; nothing for a plan without stages.
        moments: for each stage those at which it holds most.
    """

    program: Program
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
    """The ops of a stage, written down step by step for devices that have what they need of the same transfers."""

    def __init__(self, training: Training, stage: int, elements: Mapping[str, Numbers]) -> None:
        program = training.program
        self.training, self.stage, self.parts = (
            training,
            stage,
            len(training.moments[stage][0].waiting) // 2 + 1,
        )
        self.layers = {layer.name: layer for layer in program.graph.layers}
        self.nests = {name: layer.nest(program.graph.batch) for name, layer in self.layers.items()}
        self.read = {name for layer in program.graph.layers for name in layer.inputs}
        self.trained = {step.layer for step in program.steps if _is(step, "backward")}
        self.elements, self.saved = {**elements, **_of_samples(program)}, _read(program, "backward")
        self.steps = _steps_of(training, stage)
        self.inside = {
            id(step): self._inside(step) for _, step in self.steps if not isinstance(step, Compute)
        }

    def _inside(self, step: Copy | Add) -> Flags:
        """Return whether each device has all that it needs of a transfer; sums that take the place of terms are there."""
        pairs = zip(step.need.members, step.have.members, strict=True)
        lacks = np.any([(own & ~theirs).any(axis=1) for own, theirs in pairs], axis=0)
        found = ~lacks & (step.need.elements > 0)
        if isinstance(step, Add):
            found |= self.elements[step.target] >= self.elements[step.source]
        return np.asarray(found)

    def peak(self, devices: NDArray[np.intp]) -> Bytes:
        """Return the most bytes of activations and errors at once on each of the stage's devices."""
        inside = np.reshape([own[devices] for own in self.inside.values()], (-1, len(devices)))
        found = np.zeros(len(devices))
        for flags in np.unique(inside, axis=1).T:
            alike = (inside == flags[:, None]).all(axis=0)
            run = _Run(self, devices[alike], dict(zip(self.inside, flags, strict=True)))
            found[alike] = held_at(run.pieces(), self.training.moments[self.stage])
        return found


class _Run:
    """The ledger of some devices under way."""

    def __init__(self, record: _Record, devices: NDArray[np.intp], inside: Mapping[int, bool]) -> None:
        self.record, self.devices, self.inside = record, devices, inside
        self.ledger = Ledger()
        self.buffers: dict[str, int] = {}
        self.gradient: tuple[tuple[str, ...], tuple[str, ...]] | None = None

    def pieces(self) -> tuple[Piece, ...]:
        """Write the ops down, and return the pieces of work."""
        parts = range(self.record.parts)
        steps = {piece: [*own] for piece, own in groupby(self.record.steps, itemgetter(0))}
        for piece in [*((False, part) for part in parts), *((True, -part) for part in reversed(parts))]:
            for _, step in steps.get(piece, []):
                if isinstance(step, Compute):
                    self._compute(step)
                else:
                    self._transfer(step)
            self._compute_gradient()
            self.ledger.end()
        return self.ledger.pieces(*self.ledger.course(self._kept))

    def _next(self, *reads: str, saved: Sequence[str] = ()) -> None:
        """Begin an op; samples are there when they are read first."""
        new = [name for name in reads if name not in self.buffers]
        known = [self.buffers[name] for name in reads if name in self.buffers]
        self.ledger.next(*known, saved=[self.buffers[name] for name in saved])
        for name in new:
            self._write(name)

    def _size(self, name: str) -> Bytes:
        return self.record.training.element_bytes * self.record.elements[name][self.devices].astype(
            np.float64
        )

    def _write(self, name: str, owner: str = "") -> None:
        self.buffers[name] = self.ledger.write(self._size(name), self.buffers[owner] if owner else -1)

    def _transfer(self, step: Copy | Add) -> None:
        """Write a transfer; of one to another stage, that it leaves."""
        if self.record.training.place(step)[0] != self.record.stage:
            self._next(step.source)
        elif _crosses(step) and step.item.phase == "backward":
            self.buffers[step.target] = self.ledger.receive(self._size(step.target))
        else:
            self._next(step.source)
            self._write(step.target, step.source if self.inside[id(step)] else "")

    def _compute(self, step: Compute) -> None:
        if step.kind in {"error", "loss", "backward"}:
            self._compute_gradient()
        if step.kind == "error":
            self._add(step)
        elif step.kind == "backward":
            self._backward(step)
        else:
            self._forward(step)

    def _compute_gradient(self) -> None:
        """Compute a gradient: it may be while the error of the input is sent, so its operands stay until then."""
        if self.gradient is not None:
            reads, saved = self.gradient
            self._next(*reads, saved=saved)
        self.gradient = None

    def _forward(self, step: Compute) -> None:
        """Write a forward phase, a bias or the loss; a bias is added in place, and a view has the memory of what it shows."""
        record, layer = self.record, self.record.layers[step.layer]
        nest = record.nests[step.layer]
        reads = [name for role, name in step.reads.items() if role not in nest.sums]
        self._next(*reads)
        (made,) = step.writes.values()
        self._write(made, reads[0] if step.kind == "finish" or (step.kind == "forward" and nest.view) else "")
        if step.kind == "forward" and layer.name in record.trained:
            kept = _kept_by(step, layer, nest, record.training)[self.devices]
            if kept.any():
                self.buffers[f"kept {layer.name}"] = self.ledger.write(kept)

    def _add(self, step: Compute) -> None:
        """Add up the errors of a tensor that several layers read."""
        (error,) = step.writes.values()
        self.buffers[error] = self.ledger.add(
            [self.buffers[name] for name in step.reads.values()], self._size(error)
        )

    def _backward(self, step: Compute) -> None:
        """Write a backward phase; the error of a sum's term is that of the sum, and of a part a slice, as large as the whole."""
        layer, nest, error = (
            self.record.layers[step.layer],
            self.record.nests[step.layer],
            step.reads["error"],
        )
        reads, join = [error], layer.op.node == "join"
        if nest.saved.output or layer.name not in self.record.read:
            # The network's outputs stay until their errors come back: the training loop has a name for them.
            reads.append(f"F {layer.name}")
        inputs = tuple(name for role, name in step.reads.items() if role.startswith("input"))
        saved = inputs if nest.saved.input else ()
        kept = f"kept {layer.name}"
        self._next(*reads, *([kept] if kept in self.buffers else []), saved=saved)
        own = self.buffers[error]
        for name in [name for role, name in step.writes.items() if role.startswith("input")]:
            if join:
                self.buffers[name] = self.ledger.pass_on(own)
            elif nest.view:
                self.buffers[name] = self.ledger.write(self.ledger.sizes[own], own)
            else:
                self._write(name)
        if layer.weighted:
            self.gradient = tuple(reads), saved

    def _kept(self, buffers: Sequence[int]) -> Bytes:
        """Return the bytes that are kept of a tensor for several readers; of views with other dims those of the largest."""
        names = {buffer: name for name, buffer in self.buffers.items()}
        found: dict[tuple[int, ...], NDArray[np.bool_]] = {}
        for buffer in buffers:
            mask = self.record.saved[names[buffer]][self.devices]
            found[mask.shape] = found.get(mask.shape, False) | mask
        elements = np.max([_counted(mask) for mask in found.values()], axis=0)
        return np.asarray(self.record.training.element_bytes * elements, np.float64)


def _steps_of(training: Training, stage: int) -> list[tuple[_Piece, Copy | Add | Compute]]:
    """Return the steps of a stage in the order of its work, each with its piece of it.

    A piece begins with what comes from other parts of the stage; then arrives what other stages send. What another stage reads
    of it has gone there when the piece ends.
    """
    steps = [*enumerate(training.program.steps)]
    turn = next(number for number, step in steps if _is(step, "loss") or _is(step, "error"))
    found: list[tuple[int, _Piece, Copy | Add | Compute]] = []
    begin: dict[_Piece, int] = {}
    for number, step in steps:
        if isinstance(step, Update) or _uncounted(step):
            continue
        of, part = training.place(step)
        if of == stage:
            found.append((number, (False, part) if number < turn else (True, -part), step))
            if isinstance(step, Compute):
                begin.setdefault(found[-1][1], number)
        elif found and number < turn and not isinstance(step, Compute) and _maker(training, step) == stage:
            found.append((number, found[-1][1], step))

    def order(own: tuple[int, _Piece, Copy | Add | Compute]) -> tuple[_Piece, int, int, int]:
        number, piece, step = own
        if isinstance(step, Compute) or number >= begin.get(piece, 0):
            return piece, number, 2, number
        return piece, begin[piece], int(_crosses(step)), number

    return [(piece, step) for _, piece, step in sorted(found, key=order)]


def _maker(training: Training, step: Copy | Add) -> int:
    """Return the stage that sends a tensor to a layer."""
    return training.place_of[step.item.maker or step.item.layer][0]


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
                name = step.reads[operand_name(number)]
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
        each = _added(training, step, received) if isinstance(step, Add) else _copied(places, step)
        for level, own in enumerate(each):
            at = (step.item.phase, training.place(step)) if _crosses(step) else (level, key)
            together[at] = together.get(at, 0) + own
    return np.asarray(np.max([np.zeros(places.devices), *together.values()], axis=0))


def _crosses(step: Copy | Add) -> bool:
    """Return whether a transfer brings a tensor from one stage to another: no device has elements at both ends."""
    return not (isinstance(step, Add) or step.have.meets(step.need))


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
