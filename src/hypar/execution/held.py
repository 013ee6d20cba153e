"""The bytes that each simulated device holds at its fullest moment, counted from the arrays of a run.

A run gives every device arrays as large as their tensors; a device holds the elements that it has of one, from the step that
writes it to the last one that needs it, for each microbatch in the order of its stage's work. The rest are rules of memory that
training frameworks obey; each stands with its reason where it is applied:

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

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
from numpy.typing import NDArray

from hypar.execution.lifetimes import exchanges_gradients, reads, writes
from hypar.ops.run import Run
from hypar.program.holding import cells
from hypar.program.steps import Add, Compute, Copy, Update

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hypar.execution.devices import Devices
    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer
    from hypar.ops.nest import Nest, Saved
    from hypar.program.holding import Holding
    from hypar.program.layout import Numbers, Places
    from hypar.program.steps import Program, Step

Bytes = NDArray[np.float64]
"""Bytes of each device."""

Place = tuple[int, int]
"""A stage, and one of its parts."""

Course = tuple[list[tuple[float, float]], float]
"""The bytes of an array from each of some steps on, and the last step that needs it; half a step before one that takes its place."""

FIRST: Place = (0, 0)
"""The place of all layers of a plan without stages."""

Work = tuple[str, int, int]
"""A piece of work of a stage: its phase, its part and its microbatch."""

Piece = tuple[bool, int]
"""A piece of work of a stage in order: whether it is backward, and the part, negative there."""

ALONE: tuple[Work, ...] = (("forward", 0, 0), ("backward", 0, 0))
"""The work of a step without stages."""

UNCOUNTED = frozenset({"bias", "statistics"})
"""The tensors that have no memory of their own in a plan."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """The setting of the step whose memory is counted.

    Attributes:
        element_bytes: bytes of an element.
        state: numbers of the optimizer's state for each weight; a run of one step has none.
        chunks: the layers that exchange their gradients together, by name.
        places: the stage of each layer and its part of it; the first ones for a layer that is not named.
        stages: the stage of each device; nothing for a plan without stages.
        works: the work of each stage in order.
    """

    element_bytes: int
    state: int = 0
    chunks: Sequence[frozenset[str]] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    stages: Sequence[int] = ()
    works: Sequence[Sequence[Work]] = (ALONE,)

    def place(self, program: Program, step: Copy | Add | Compute) -> Place:
        """Return the stage and its part to which the layer belongs whose arrays a step writes."""
        if isinstance(step, Compute):
            return self.place_of(program, step.layer)
        item = step.item
        return self.place_of(program, item.maker if item.maker and item.phase == "backward" else item.layer)

    def place_of(self, program: Program, name: str) -> Place:
        """Return the stage and its part to which a layer belongs: an op without cuts to that of the tensor that it reads."""
        layers = {layer.name: layer for layer in program.graph.layers}
        while name not in self.places and layers[name].inputs:
            name = layers[name].inputs[0]
        return self.places.get(name, FIRST)


class Watch:
    """The elements that each device has of every array when it is written.

    Attributes:
        elements: the elements by the array's name, ``[devices]``.
    """

    def __init__(self) -> None:
        """Start before the run."""
        self.elements: dict[str, Numbers] = {}

    def __call__(self, devices: Devices, step: Step) -> None:
        """Note the arrays that a step has written."""
        for name in writes(step):
            found = ~np.isnan(devices.values[name])
            count = found.sum(axis=tuple(range(1, found.ndim)))
            if isinstance(step, Compute):
                count = _computed(step, count)
            self.elements[name] = count


def _computed(step: Compute, count: Numbers) -> Numbers:
    """Return the elements of an array that a step computes: devices fill it with zeros where they compute nothing."""
    pieces = [
        0 if piece is None else int(np.prod([len(own) for own in piece.values()])) for piece in step.pieces
    ]
    return np.asarray(pieces) if step.kind == "error" else np.where(np.asarray(pieces) > 0, count, 0)


def held(devices: Devices, watch: Watch, training: Training) -> dict[str, Bytes]:
    """Return the bytes that each device holds at its fullest moment, item by item as a score does."""
    program = devices.program
    weights = np.zeros(program.places.devices)
    layers = {layer.name: layer for layer in program.graph.layers}
    for step in program.steps:
        if isinstance(step, Update) and layers[step.layer].weighted and step.parameter not in UNCOUNTED:
            weights += training.element_bytes * step.holding.elements
    return {
        "weights": weights,
        "gradients": weights,
        "optimizer": training.state * weights,
        "tensors": _tensors(program, watch.elements, training),
        "buffers": training.element_bytes * _buffers(devices, training),
    }


def _tensors(program: Program, elements: Mapping[str, Numbers], training: Training) -> Bytes:
    """Return the most bytes of activations and errors that each device holds at once."""
    found = np.zeros(program.places.devices)
    stages = np.array(training.stages or (0,) * program.places.devices)
    for stage in range(len(training.works)):
        lifetimes = _Lifetimes(_as_worked(program, training, stage), elements, training)
        own = np.flatnonzero(stages == stage)
        found[own] = lifetimes.most(stage, own.tolist())
    return found


def _as_worked(program: Program, training: Training, stage: int) -> Program:
    """Return a program in which the transfers ahead of a piece of work of a stage stand before its first op, behind all earlier work.

    A piece begins with what comes from other parts of the stage; then arrives what other stages send. Transfers between its ops stay.
    """
    pieces = _pieces(program, training, stage)
    begin: dict[Piece, int] = {}
    for number, own in pieces.items():
        if isinstance(program.steps[number], Compute):
            begin.setdefault(own, number)

    def turn(number: int) -> tuple[int, int, int]:
        """Return where a step stands: before the first op of its piece of work, or where it is."""
        own, step = pieces.get(number), program.transfers.get(number)
        if step is None or own not in begin or number > begin[own]:
            return number, 2, number
        return begin[own], int(_crosses(step)), number

    order = sorted(range(len(program.steps)), key=turn)
    return replace(program, steps=tuple(program.steps[number] for number in order))


def _pieces(program: Program, training: Training, stage: int) -> dict[int, Piece]:
    """Return the steps of a stage, each with its piece of work: it takes its parts forward in order, then backward in reverse."""
    end = next(number for number, step in enumerate(program.steps) if _turns(step))
    found = {}
    for number, step in enumerate(program.steps):
        if not isinstance(step, Update):
            of, part = training.place(program, step)
            if of == stage:
                found[number] = (number >= end, part if number < end else -part)
    return found


class _Lifetimes:
    """The arrays of a program with the steps between which devices hold them."""

    def __init__(self, program: Program, elements: Mapping[str, Numbers], training: Training) -> None:
        self.program, self.training = program, training
        self.layers = {layer.name: layer for layer in program.graph.layers}
        data, asked = {f"F {name}" for name in _ahead(program.graph)}, _read(program, "forward")
        self.elements = {**elements, **{name: _counted(own) for name, own in asked.items() if name in data}}
        self.kept = _read(program, "backward")
        self.later: dict[str, int] = {}
        self.first: dict[str, int] = {}
        self.last: dict[str, float] = {}
        self.owners: list[dict[str, str]] = [{} for _ in range(program.places.devices)]
        self.read = {name for layer in program.graph.layers for name in layer.inputs}
        self.sent = {
            step.item.layer: number
            for number, step in program.transfers.items()
            if step.item[2:] == ("backward", "input")
            if training.place(program, step) == training.place_of(program, step.item.layer)
        }
        self.outside: set[str] = set()
        self.passed: set[str] = set()
        self.shown: dict[str, str] = {}
        gradients = {step.gradient for step in program.steps if isinstance(step, Update)}
        for number, step in enumerate(program.steps):
            if not isinstance(step, Update) and not exchanges_gradients(step) and not _statistics(step):
                self._run(number, step)
        gradients |= {name for step in program.steps if _is(step, "tied") for name in step.reads.values()}
        for name in gradients | program.accumulated:
            self.first.pop(name, None)

    def _run(self, number: int, step: Copy | Add | Compute) -> None:
        """Note the arrays that a step needs and those that it writes."""
        until = number
        if _is(step, "backward") and self.layers[step.layer].weighted:
            # The gradient may be computed while the error of the input is sent, so its operands stay until then; where it goes to
            # another piece of work, the gradient is computed before that begins.
            until = max(number, self.sent.get(step.layer, 0))
        for name in self._needed(step):
            self.first.setdefault(name, number)
            self.last[name] = max(until, self.last.get(name, 0))
        for name in self._kept(step):
            self.later[name] = until
        for name in writes(step):
            self.first[name] = self.last[name] = number
        if isinstance(step, Compute):
            self._share(step)
        elif isinstance(step, Copy):
            self._copied(step)
        else:
            larger = self.elements[step.target] >= self.elements[step.source]
            self._same(step.target, step.source, larger | _inside(step.need, step.have))

    def _same(self, name: str, other: str, where: NDArray[np.bool_] | None = None) -> None:
        """Note that an array has the memory of another one, on some devices or on all."""
        for device, owner in enumerate(self.owners):
            if where is None or where[device]:
                owner[name] = other

    def _copied(self, step: Copy) -> None:
        """Note the memory of a copy: none where the device has made what it needs.

        Each reader of a tensor has a copy of its own, also of elements that another reader has got: the program brings them to
        each, and they are counted as they arrive.
        """
        self._same(step.target, step.source, _inside(step.need, step.have))
        if _crosses(step):
            self.outside.add(step.target)

    def _needed(self, step: Copy | Add | Compute) -> Sequence[str]:
        """Return the arrays of activations and errors that a step needs."""
        if not isinstance(step, Compute):
            return reads(step)
        layer, keeps = self.layers[step.layer], self._keeps(step)
        if keeps is not None:
            # The network's outputs stay until their errors come back: the training loop has a name for them.
            output = keeps.output or layer.name not in self.read
            return [step.reads["error"], *([f"F {layer.name}"] if output else [])]
        return [name for role, name in step.reads.items() if role not in self._nest(layer).sums]

    def _nest(self, layer: Layer) -> Nest:
        return layer.nest(self.program.graph.batch)

    def _keeps(self, step: Step) -> Saved | None:
        """Return what the op of a backward step keeps; None for another step."""
        if not _is(step, "backward"):
            return None
        layer = self.layers[step.layer]
        return self._nest(layer).saved

    def _kept(self, step: Step) -> Sequence[str]:
        """Return the arrays of which a step needs the elements that its op has kept of its inputs."""
        keeps = self._keeps(step)
        if keeps is None or not keeps.input or not isinstance(step, Compute):
            return ()
        return [name for role, name in step.reads.items() if role.startswith("input ")]

    def _share(self, step: Compute) -> None:
        """Note the arrays that share the memory of others.

        A bias is added in place; views have the memory of what they show, as ``view`` and ``flatten`` do; the error of a sum's term is
        that of the sum, and of a concatenation's part a slice of it, as autograd passes them on.
        """
        layer = self.layers[step.layer]
        if step.kind == "finish" or (step.kind == "forward" and self._nest(layer).view):
            self._same(step.writes["output"], next(iter(step.reads.values())))
        elif step.kind == "backward" and (self._nest(layer).view or layer.op.node == "join"):
            for name in step.writes.values():
                self._same(name, step.reads["error"])
                self.shown[name] = step.reads["error"]
            if layer.op.node == "join":
                self.passed |= {*step.writes.values()}
        elif step.kind == "error":
            self._accumulate(step)

    def _accumulate(self, step: Compute) -> None:
        """Note the memory of a sum of errors, which is formed as they arrive: from another stage in the buffer, where it is added.

        Nothing is added to an error that a join has passed on, as its other inputs may have the same memory.
        """
        error, arrived = step.writes["error"], sorted(step.reads.values(), key=self.first.__getitem__)
        if len(arrived) == 1:
            self._same(error, arrived[0])
            self.shown[error] = arrived[0]
            return
        own = [
            name
            for name in arrived
            if all(self.passed.isdisjoint(_chain(owner, name)) for owner in self.owners)
        ]
        self.last |= {name: self.first[name] for name in arrived if name not in own}
        for name, after in (arrived[:2], *pairwise(own)):
            self.last[name] = self.first[after] - (0.5 if after in self.outside else 0)
        if own:
            self._same(error, own[-1])
        if not {*arrived[:2]} & {*own}:
            self.first[error] = self.first[arrived[1]]

    def most(self, stage: int, devices: Sequence[int]) -> Bytes:
        """Return the most bytes that each of a stage's devices holds at once, over all work of the stage."""
        steps = {
            number: ("backward" if back else "forward", abs(part))
            for number, (back, part) in _pieces(self.program, self.training, stage).items()
        }
        order, more, found = _Order(steps, self.training.works[stage]), self._more(), []
        for device in devices:
            own: list[Course] = [
                ([(first, float(num_bytes[device]))], last) for first, last, num_bytes in more
            ]
            found.append(order.most([*own, *self._together(device)]))
        return np.array(found)

    def _together(self, device: int) -> Iterator[Course]:
        """Yield the memory of a device's arrays: its bytes from each step on, and the last step that needs it.

        Of an array that only backward phases still need, a device holds what they read: it is what their ops have saved.
        """
        groups: dict[str, list[str]] = {}
        for name in self.first:
            groups.setdefault(_root(self.owners[device], name), []).append(name)
        for names in groups.values():
            last, sizes = max(self.last[name] for name in names), [*self._sizes(names, device)]
            later = [name for name in names if self.later.get(name, 0) > last]
            if later:
                sizes.append((last + 1, self._all_kept(later, device)))
                last = max(self.later[name] for name in later)
            yield [(first, self.training.element_bytes * float(elements)) for first, elements in sizes], last

    def _all_kept(self, names: Sequence[str], device: int) -> int:
        """Return the elements that a device keeps of a tensor for several readers; of views with other dims those of the largest."""
        found: dict[tuple[int, ...], NDArray[np.bool_]] = {}
        for name in names:
            mask = self.kept[name][device]
            found[mask.shape] = found.get(mask.shape, False) | mask
        return max(int(mask.sum()) for mask in found.values())

    def _sizes(self, names: Sequence[str], device: int) -> Iterator[tuple[float, int]]:
        """Yield the elements of arrays that share memory from each step on: of the largest that is there, or is to come.

        Of a slice there is the whole tensor of which it is one. Sums are smaller than terms where they go to shards: they are received in the buffer, and the terms are freed.
        """
        ends = sorted({self.first[name] for name in names} | {self.last[name] + 1 for name in names})
        for first, after in pairwise(ends):
            there = [name for name in names if self.first[name] <= first <= self.last[name]]
            there = there or [name for name in names if self.first[name] >= after]
            yield first, max(int(self.elements[_root(self.shown, name)][device]) for name in there)

    def _more(self) -> list[tuple[int, int, Bytes]]:
        """Return what ops keep besides their inputs and outputs, until their backward phase."""
        back = {step.layer: number for number, step in enumerate(self.program.steps) if _is(step, "backward")}
        found = []
        for number, step in enumerate(self.program.steps):
            if isinstance(step, Compute) and step.kind == "forward" and step.layer in back:
                layer, size = self.layers[step.layer], self.training.element_bytes
                keeps, shape = self._nest(layer).saved, layer.shape
                share = _share(step, "batch", *shape) / (
                    self.program.graph.batch * np.prod([*shape.values()])
                )
                num_bytes = (size * keeps.elements + keeps.mask_bytes) * share
                if keeps.statistics:
                    share = _share(step, "channels") / shape["channels"]
                    num_bytes = num_bytes + size * keeps.statistics * share
                found.append((number, back[step.layer], num_bytes))
        return found


class _Order:
    """The work of a stage in order, and the steps of the program that each piece of it takes."""

    def __init__(self, steps: Mapping[int, tuple[str, int]], works: Sequence[Work]) -> None:
        self.steps, self.numbers = steps, sorted(steps)
        self.turns = {work: turn for turn, work in enumerate(works)}
        self.items = sorted({item for phase, _, item in works if phase == "forward"})

    def most(self, courses: Sequence[Course]) -> float:
        """Return the most bytes at once of arrays of which each microbatch has one.

        What another stage reads has gone there when the work that makes it ends.
        """
        changes: list[tuple[tuple[int, float], float]] = []
        for sizes, last in courses:
            until = self.numbers[max(0, bisect_right(self.numbers, last) - 1)]
            before = 0.0
            for first, num_bytes in [*sizes, (last + 1, 0.0)]:
                at = bisect_left(self.numbers, math.floor(first))
                if num_bytes < before and first == int(first):
                    # What is no longer needed goes when the step before ends, whatever work comes next.
                    step = self.numbers[max(0, at - 1)]
                    moment = step + 0.5
                elif at == len(self.numbers):
                    step, moment = until, until + 0.5
                else:
                    step, moment = (self.numbers[at],) * 2
                turns = [self.turns[*self.steps[step], item] for item in self.items]
                changes += [((turn, moment), num_bytes - before) for turn in turns]
                before = num_bytes
        return max(accumulate((change for _, change in sorted(changes)), initial=0.0))


def _chain(owner: Mapping[str, str], name: str) -> Iterator[str]:
    """Yield an array, the one whose memory it has, and so on."""
    yield name
    while name in owner:
        name = owner[name]
        yield name


def _root(owner: Mapping[str, str], name: str) -> str:
    """Return the array whose memory an array has."""
    *_, root = _chain(owner, name)
    return root


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


def _turns(step: Step) -> bool:
    """Return whether a step belongs to the backward phase."""
    return _is(step, "loss") or _is(step, "error")


def _statistics(step: Step) -> bool:
    """Return whether a step is about statistics or biases, which a plan does not count."""
    if isinstance(step, Compute):
        return step.kind == "statistics"
    return not isinstance(step, Update) and step.item.tensor in UNCOUNTED


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


def _buffers(devices: Devices, training: Training) -> Bytes:
    """Return the room of each device for the largest transfer.

    A transfer is what arrives for one tensor or one chunk of gradients at a level, as a collective is called for one of these; of
    what other stages have made everything that a phase needs, as its work begins when all of it is there.
    """
    together: dict[object, NDArray[np.float64]] = {}
    for number, arrived in devices.arrived.items():
        step = devices.program.steps[number]
        assert isinstance(step, Copy | Add)  # noqa: S101 (these are what arrives)
        if step.item.tensor in UNCOUNTED:
            continue
        key: object = number
        if exchanges_gradients(step):
            key = next((chunk for chunk in training.chunks if step.item.layer in chunk), number)
        for level, own in enumerate(_spread(devices, step, arrived)):
            at: object = (level, key)
            if _crosses(step):
                at = (step.item.phase, training.place(devices.program, step))
            together[at] = together.get(at, 0) + own
    nothing = np.zeros(devices.program.places.devices)
    return np.asarray(np.max([nothing, *together.values()], axis=0))


def _crosses(step: Copy | Add) -> bool:
    """Return whether a transfer brings a tensor from one stage to another: no device has elements at both ends."""
    return isinstance(step, Copy) and not step.have.meets(step.need)


def _spread(devices: Devices, step: Copy | Add, arrived: Numbers) -> NDArray[np.float64]:
    """Spread what arrives at a level evenly over the devices that take part, as rings do; a run lets one receive for others."""
    if isinstance(step, Copy):
        return _copied(devices.program.places, step)
    return _added(devices.program.places, step, arrived)


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
