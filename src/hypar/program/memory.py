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
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from hypar.ops.run import Run
from hypar.program.holding import cells
from hypar.program.liveness import ALONE, Ledger, Op, root_of
from hypar.program.steps import Add, Compute, Copy, Update, exchanges_gradients

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer
    from hypar.ops.nest import Nest
    from hypar.program.holding import Holding
    from hypar.program.layout import Numbers, Places
    from hypar.program.liveness import Bytes, Flags, Piece, Work
    from hypar.program.steps import Program, Step

Place = tuple[int, int]
"""A stage, and one of its parts."""

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
        works: the work of each stage in order.
    """

    program: Program
    element_bytes: int
    state: int = 0
    chunks: Sequence[frozenset[str]] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    stages: Sequence[int] = ()
    works: Sequence[Sequence[Work]] = (ALONE,)

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
        for stage, works in enumerate(self.works):
            own = np.flatnonzero(stages == stage)
            tensors[own] = _Record(self, stage, elements).ledger().peak(works, own)
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
    """The ops of a stage, as they are written down step by step."""

    def __init__(self, training: Training, stage: int, elements: Mapping[str, Numbers]) -> None:
        program = training.program
        self.training, self.stage = training, stage
        self.layers = {layer.name: layer for layer in program.graph.layers}
        self.nests = {name: layer.nest(program.graph.batch) for name, layer in self.layers.items()}
        self.read = {name for layer in program.graph.layers for name in layer.inputs}
        self.trained = {step.layer for step in program.steps if _is(step, "backward")}
        self.elements = {**elements, **_of_samples(program)}
        self.saved = _read(program, "backward")
        self.ops: list[Op] = []
        self.sizes: dict[str, Bytes] = {}
        self.shares: dict[str, tuple[str, Flags]] = {}
        self.written: dict[str, int] = {}
        self.added: dict[int, list[Op]] = {}
        self.shown: dict[str, str] = {}
        self.outside: set[str] = set()
        self.passed: set[str] = set()

    def ledger(self) -> Ledger:
        """Write the ops down, with the additions of errors where they arrive."""
        gradients: list[Op] = []
        for piece, step in _steps_of(self.training, self.stage):
            backward = isinstance(step, Compute) and step.kind in {"error", "loss", "backward"}
            if gradients and (backward or gradients[0].piece != piece):
                # The gradient may be computed while the error of the input is sent, so its operands stay until then.
                self.ops.append(gradients.pop())
            op = self._op(piece, step)
            self.ops.append(op)
            self.written |= dict.fromkeys(op.writes, len(self.ops) - 1)
            if isinstance(step, Compute) and step.kind == "backward" and self.layers[step.layer].weighted:
                gradients.append(op._replace(writes=()))
        self.ops += gradients
        ops = [each for number, op in enumerate(self.ops) for each in self._with_added(number, op)]
        for name in {name for op in ops for name in (*op.reads, *op.writes)} - {*self.sizes}:
            shown = self.elements[root_of(self.shown, name)]
            self.sizes[name] = self.training.element_bytes * shown.astype(np.float64)
        return Ledger(ops=ops, sizes=self.sizes, shares=self.shares, kept=self._kept)

    def _with_added(self, number: int, op: Op) -> Iterator[Op]:
        """Yield an op, and the additions of what it brings behind it; what is added in the buffer is no longer held when it comes."""
        added = self.added.get(number, [])
        yield from (own for own in added if not own.writes)
        yield op
        yield from (own for own in added if own.writes)

    def _share(self, name: str, other: str, where: Flags | None = None) -> None:
        """Note that an array has the memory of another one, on some devices or on all."""
        where = np.ones(self.training.program.places.devices, bool) if where is None else where
        self.shares[name] = other, where
        if other in self.passed and where.any():
            self.passed.add(name)

    def _op(self, piece: Piece, step: Copy | Add | Compute) -> Op:
        if not isinstance(step, Compute):
            return self._transfer(piece, step)
        if step.kind == "backward":
            return self._backward(piece, step)
        if step.kind == "error":
            return self._error(piece, step)
        layer, nest = self.layers[step.layer], self.nests[step.layer]
        reads = tuple(name for role, name in step.reads.items() if role not in nest.sums)
        (made,) = step.writes.values()
        if step.kind == "finish" or (step.kind == "forward" and nest.view):
            self._share(made, reads[0])
        kept = _kept_by(step, layer, nest, self.training) if step.kind == "forward" else 0.0
        if not np.any(kept) or layer.name not in self.trained:
            return Op(piece, reads, (made,))
        self.sizes[f"kept {layer.name}"] = np.asarray(kept)
        return Op(piece, reads, (made, f"kept {layer.name}"))

    def _transfer(self, piece: Piece, step: Copy | Add) -> Op:
        """Return a transfer; of one to another stage, that it leaves."""
        source, target = step.source, step.target
        if self.training.place(step)[0] != self.stage:
            return Op(piece, (source,))
        where = _inside(step.need, step.have)
        if isinstance(step, Add):
            where = where | (self.elements[target] >= self.elements[source])
        elif _crosses(step):
            self.outside.add(target)
        self._share(target, source, where)
        return Op(piece, (source,), (target,))

    def _backward(self, piece: Piece, step: Compute) -> Op:
        """Return the backward phase of an op; the error of a sum's term is that of the sum, and of a part a slice of it."""
        layer, nest, error = self.layers[step.layer], self.nests[step.layer], step.reads["error"]
        reads, made = [error], tuple(name for role, name in step.writes.items() if role.startswith("input "))
        if nest.saved.output or layer.name not in self.read:
            # The network's outputs stay until their errors come back: the training loop has a name for them.
            reads.append(f"F {layer.name}")
        if f"kept {layer.name}" in self.sizes:
            reads.append(f"kept {layer.name}")
        if nest.view or layer.op.node == "join":
            for name in made:
                self._share(name, error)
            self.shown |= dict.fromkeys(made, error)
            self.passed |= {*made} if layer.op.node == "join" else set()
        inputs = [name for role, name in step.reads.items() if role.startswith("input ")]
        return Op(piece, tuple(reads), made, tuple(inputs) if nest.saved.input else ())

    def _error(self, piece: Piece, step: Compute) -> Op:
        """Return the error of a tensor that several read, which is added up as it arrives: from another stage in the buffer.

        Nothing is added to an error that a join has passed on, as its other inputs may have the same memory.
        """
        (error,) = step.writes.values()
        before, *others = sorted(step.reads.values(), key=self.written.__getitem__)
        if not others:
            self.shown[error] = before
        for name in others:
            at, total = self.written[name], f"{error} with {name}"
            here, added = self.ops[at].piece, self.added.setdefault(self.written[name], [])
            if name in self.outside:
                added.append(Op(here, (before,)))
            added.append(Op(here, (name,) if name in self.outside else (before, name), (total,)))
            self.elements[total] = self.elements[error]
            unshared = next((each for each in (name, before) if each not in self.passed), None)
            if unshared is not None:
                self._share(total, unshared)
            before = total
        self._share(error, before)
        return Op(piece, (before,), (error,))

    def _kept(self, names: Sequence[str]) -> Bytes:
        """Return the bytes that a device keeps of a tensor for several readers; of views with other dims those of the largest."""
        found: dict[tuple[int, ...], NDArray[np.bool_]] = {}
        for name in names:
            mask = self.saved[name]
            found[mask.shape] = found.get(mask.shape, False) | mask
        elements = np.max([_counted(mask) for mask in found.values()], axis=0)
        return np.asarray(self.training.element_bytes * elements, np.float64)


def _steps_of(training: Training, stage: int) -> list[tuple[Piece, Copy | Add | Compute]]:
    """Return the steps of a stage in the order of its work, each with its piece of it.

    A piece begins with what comes from other parts of the stage; then arrives what other stages send. What another stage reads
    of it has gone there when the piece ends.
    """
    steps = [*enumerate(training.program.steps)]
    turn = next(number for number, step in steps if _is(step, "loss") or _is(step, "error"))
    found: list[tuple[int, Piece, Copy | Add | Compute]] = []
    begin: dict[Piece, int] = {}
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

    def order(own: tuple[int, Piece, Copy | Add | Compute]) -> tuple[Piece, int, int, int]:
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


def _inside(need: Holding, have: Holding) -> NDArray[np.bool_]:
    """Return whether each device has all that it needs."""
    each = [~(own & ~theirs).any(axis=1) for own, theirs in zip(need.members, have.members, strict=True)]
    return np.asarray(np.all(each, axis=0) & (need.elements > 0))


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
        each = _copied(places, step) if isinstance(step, Copy) else _added(places, step, received)
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


def _added(places: Places, step: Add, arrived: Numbers) -> NDArray[np.float64]:
    """Return the elements of sums and their terms that each device receives at each level.

    Each part that has terms or needs sums gets the same, and shares it by the sums that its devices need.
    """
    found = np.zeros(arrived.shape)
    for level, own in enumerate(arrived):
        for members, inside in places.inside[level]:
            sizes = [_size(step, part) for part in inside]
            parts = [(part, size) for part, size in zip(inside, sizes, strict=True) if size.any()]
            for part, size in parts:
                found[level, part] = own[members].sum() / len(parts) * size / size.sum()
    return found


def _size(step: Add, part: Numbers) -> Numbers:
    """Return the elements of sums that each device of a part needs, or of its terms if it needs none."""
    need = step.need.elements[part]
    return need if need.any() else step.have.elements[part]
