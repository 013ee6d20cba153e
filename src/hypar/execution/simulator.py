"""A training step of a program on simulated devices: what they start from, hold, compute and send, and the loss of what nothing reads.

The loss is a sum over output elements, so that a device needs only those that it holds. Behind a softmax it is the mean cross-entropy
against a label for every sample (and pixel); behind any other op half the mean square of the distance to a target for every element.
Labels and targets are drawn by index alone.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.errors import ModelError
from hypar.execution.exchange import add, copy, mask, reduced
from hypar.network.graph import LayerGraph
from hypar.network.layer import Layer
from hypar.ops.base import Op
from hypar.ops.nest import Nest, operand_name
from hypar.ops.run import Arrays, Piece, Run, uniform
from hypar.ops.tape import Array, Unlike, aligned, selection
from hypar.program.fragments import filled
from hypar.program.lowering import Compute, Move, Program, Step, Update
from hypar.sharding.layout import Numbers

SHARES = frozenset({"softmax", "cross_entropy"})
"""The ops whose outputs are shares."""

LEARNING_RATE = 0.1
"""Rate of the stochastic gradient descent, without momentum, that updates parameters."""

Parameters = dict[str, dict[str, Array]]
"""Values of the trained tensors by their names in each layer, and those by the layer's name."""


class Start(NamedTuple):
    """What a step starts from: the output of each layer ``input`` by its name, and all trained tensors."""

    data: dict[str, Array]
    parameters: Parameters


def start(graph: LayerGraph, seed: int = 0) -> Start:
    """Return random data and initial values of all parameters.

    Raises ``ModelError`` where an opaque operation has trained tensors, whose gradients are not known.
    """
    random = np.random.default_rng(seed)
    data, parameters = {}, {}
    for layer in graph.layers:
        if not layer.inputs:
            data[layer.name] = random.normal(size=(graph.batch, *layer.shape.values()))
        if layer.op_name == "opaque" and layer.num_parameters:
            found = f"{layer.num_parameters:,} trained numbers in an opaque operation, which cannot be run"
            raise ModelError(layer.name, found, "ops that hypar knows")
        parameters[layer.name] = first_values(layer.op, layer.nest(graph.batch), random)
    return Start(data, parameters)


def first_values(op: Op, nest: Nest, random: np.random.Generator) -> dict[str, Array]:
    """Return first values of the trained tensors of an op, such that activations stay near 1."""
    terms = max(1.0, nest.macs / math.prod(nest.result.shape))
    own = {"weight": (0.0, 1 / math.sqrt(terms)) if nest.weight else (1.0 - op.adds, 0.1)}
    means = {name: own.get(name, (0.0, 0.1)) for name in nest.trained}
    return {name: random.normal(*means[name], trained.shape) for name, trained in nest.trained.items()}


@dataclass(frozen=True, kw_only=True)
class Devices:
    """The arrays of all devices.

    Attributes:
        program: the program that they run.
        arrived: for each transfer, by its number among the steps, the elements received so far, ``[levels, devices]``.
        elements: the elements that each device had of every array of a microbatch when it was written, ``[devices]``.
        values: each array by its name, ``[devices, *shape]``.
        parameters: each device's own elements of the trained tensors, each ``[devices, *shape]``.
        losses: what each device adds to the loss, by the output layer; elements that several devices hold count once.
    """

    program: Program
    arrived: dict[int, Numbers]
    elements: dict[str, Numbers] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)
    parameters: Parameters = field(default_factory=dict)
    losses: dict[str, Array] = field(default_factory=dict)

    @property
    def gradients(self) -> dict[str, Array]:
        """The gradient of each trained tensor by a name such as ``conv1.weight``, ``[devices, *shape]``."""
        updates = self.program.updates
        return {f"{update.layer}.{update.parameter}": self.values[update.gradient] for update in updates}

    def updated(self, update: Update) -> Array:
        """Return what each device holds of a trained tensor with its own update, ``[devices, *shape]``."""
        return self.parameters[update.layer][update.parameter] - LEARNING_RATE * self.values[update.gradient]

    @property
    def loss(self) -> float:
        """The loss of all microbatches."""
        return float(sum(values.sum() for values in self.losses.values()))


def run(program: Program, starts: Sequence[Start], *, without: int | None = None) -> Devices:
    """Run a program for each microbatch, from the first one's parameters, and then exchange all gradients.

    A transfer may be left out, by its number, to see what it is for.
    """
    nothing = np.zeros((len(program.places.parts), program.places.devices), np.int64)
    devices = Devices(program=program, arrived=dict.fromkeys(program.transfers, nothing))
    _load(devices, starts[0].parameters)
    last, (late, written) = _last_reads(program), _late(program)
    for start in starts:
        for name, values in start.data.items():
            devices.values[f"F {name}"] = np.broadcast_to(values, (program.places.devices, *values.shape))
        # Microbatches add to the terms of gradients, and to the gradients that need no addition.
        gradients = {name: devices.values[name] for name in late - written if name in devices.values}
        for number, step in enumerate(program.steps):
            if not step.once:
                _do(devices, step, number, drop=number == without)
                _note(devices, step)
            for name in last.get(number, ()):
                devices.values.pop(name, None)
        for name, before in gradients.items():
            devices.values[name] = devices.values[name] + before
    for number, step in enumerate(program.steps):
        if step.once:
            _do(devices, step, number, drop=number == without)
    return devices


def _arrays(step: Step) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if isinstance(step, Compute):
        return (*step.reads.values(),), (*step.writes.values(),)
    if isinstance(step, Update):
        return (step.gradient,), (step.writes,) if step.writes else ()
    return (step.source,), (step.target,)


def most_elements(program: Program) -> int:
    """Return the elements that a run of a program holds at once at most, in arrays of the whole size on every device."""
    last, sizes, held, most = _last_reads(program), _sizes(program), 0, 0
    for number, step in enumerate(program.steps):
        held += sum(sizes[name] for name in _arrays(step)[1])
        most = max(most, held)
        held -= sum(sizes.get(name, 0) for name in last.get(number, ()))
    return (most + program.graph.num_parameters) * program.places.devices


def _sizes(program: Program) -> dict[str, int]:
    """Return the elements of each array that steps write, but for statistics, which are small."""
    nests = {layer.name: layer.nest(program.graph.batch) for layer in program.graph.layers}
    found: dict[str, int] = {}
    for step in program.steps:
        if isinstance(step, Compute):
            nest = nests[step.layer]
            tensors = {**nest.operands, "output": nest.result, "error": nest.result}
            sizes = {role: math.prod(own.shape) for role, own in tensors.items()}
            found |= {name: sizes.get(role, 0) for role, name in step.writes.items()}
        elif isinstance(step, Move):
            found[step.target] = math.prod(step.transfer.need.shape)
        elif step.writes:
            found[step.writes] = math.prod(step.holding.shape)
    return found


def _last_reads(program: Program) -> dict[int, list[str]]:
    """Return the arrays that no later step of a microbatch reads, by the number of the step that reads or writes them last."""
    last = dict[str, int]()
    for number, step in enumerate(program.steps):
        last |= dict.fromkeys(sum(_arrays(step), ()), number)
    found: dict[int, list[str]] = {}
    for name in last.keys() - set().union(*_late(program)):
        found.setdefault(last[name], []).append(name)
    return found


def _late(program: Program) -> tuple[set[str], set[str]]:
    """Return the arrays that are read, and those that are written, behind all microbatches."""
    reads, writes = zip(*[_arrays(step) for step in program.steps if step.once], strict=True)
    return set().union(*reads), set().union(*writes)


def _note(devices: Devices, step: Step) -> None:
    """Note the elements that devices have of the arrays that a step has written, without the zeros of those that compute nothing."""
    for name in _arrays(step)[1]:
        if name not in devices.elements:
            there = ~np.isnan(devices.values[name])
            if isinstance(step, Compute):
                sizes = [0 if piece is None else math.prod(map(len, piece.values())) for piece in step.pieces]
                there[np.equal(sizes, 0)] = False
                count = np.array(sizes) if step.kind == "error" else _dense(there)
            else:
                read = isinstance(step, Move) and step.item.phase == "forward"
                count = _dense(there) if read else there.reshape(len(there), -1).sum(axis=1)
            devices.elements[name] = count


def _dense(there: NDArray[np.bool_]) -> Numbers:
    """Return the elements that each device has, with those that none reads between them, or beside all that are read, zeros in frameworks."""
    if there.any(axis=0).all():
        return np.asarray(there.reshape(len(there), -1).sum(axis=1))
    others = [tuple({*range(1, there.ndim)} - {axis}) for axis in range(1, there.ndim)]
    each = [np.asarray(there.any(axis=own)) for own in others]
    counts = [filled(own, np.asarray(own.any(axis=0))).sum(axis=1) for own in each]
    return np.asarray(np.prod(counts, axis=0))


def _do(devices: Devices, step: Step, number: int, *, drop: bool) -> None:
    """Run one step; a transfer that is dropped leaves terms unsummed, or nothing."""
    if isinstance(step, Compute):
        compute(devices, step)
        if step.kind == "backward":
            _return_one_copy(devices, step)
    elif isinstance(step, Update):
        if step.writes:
            devices.values[step.writes] = devices.updated(step)
    else:
        places, source, need = devices.program.places, _read(devices, step), mask(step.transfer.need)
        if drop:
            left = need & mask(step.transfer.have) if step.transfer.kind != "copy" else False
            devices.values[step.target] = np.where(left, source, np.nan)
            return
        added = () if step.transfer.kind != "add" else (step.transfer.copies.number,)
        exchange: Any = {"copy": copy, "add": add, "return": reduced}[step.transfer.kind]
        found, arrived = exchange(places, source, mask(step.transfer.have), need, *added)
        devices.values[step.target] = found
        devices.arrived[number] = devices.arrived[number] + arrived


def _return_one_copy(devices: Devices, step: Compute) -> None:
    """Leave zeros of errors that several copies return to a tensor at rest, where what all devices have is added up.

    Of each element one copy keeps its own: the first that holds it at rest, if one does.
    """
    for number, transfers in enumerate(devices.program.fragments[step.layer].returned):
        if transfers and transfers[-1].kind == "return":
            name, own = step.writes[operand_name(number)], transfers[-1]
            error, last = devices.values[name], int(own.copies.number.max()) + 1
            copies = own.copies.number.reshape(-1, *[1] * (error.ndim - 1))
            stays = mask(own.have) & mask(own.need) & (copies >= 0)
            kept = np.where(stays, copies, last).min(axis=0) % last
            devices.values[name] = np.where(copies == kept, error, error * 0)


def _read(devices: Devices, step: Move) -> Array:
    """Return the array that a transfer reads: of a weight for a phase what devices hold of it."""
    if step.item.phase == "weight" and not step.once:
        return devices.parameters[step.item.layer][step.item.tensor]
    return devices.values[step.source]


def _load(devices: Devices, parameters: Parameters) -> None:
    for update in devices.program.updates:
        own = np.where(mask(update.holding), parameters[update.layer][update.parameter], np.nan)
        devices.parameters.setdefault(update.layer, {})[update.parameter] = own
        for tie in update.ties:
            tied = np.transpose(own, (0, *(axis + 1 for axis in np.argsort(tie.axes))))
            devices.parameters.setdefault(tie.user, {})[update.parameter] = tied


# What devices compute


def compute(devices: Devices, step: Compute) -> None:
    """Run a step on every device that has a piece, on those whose pieces have one form together."""
    graph, num_devices = devices.program.graph, len(step.pieces)
    layer = next(layer for layer in graph.layers if layer.name == step.layer)
    if step.kind in _WHOLE:
        (made,) = step.writes.values()
        devices.values[made] = _WHOLE[step.kind](devices, step, layer)
        return
    pieces = {device: piece for device, piece in enumerate(step.pieces) if piece is not None}
    forms: dict[Hashable, list[int]] = {}
    for device, piece in pieces.items():
        form = Run(value=layer.op.value, nest=layer.nest(graph.batch), pieces=[piece]).form
        forms.setdefault(form, []).append(device)
    found: dict[str, Array] = {}
    waiting = [*forms.values()]
    while waiting:
        group = waiting.pop()
        at = group[0] if len(group) == 1 else selection(np.array(group))
        try:
            done = _computed(devices, step, layer, [pieces[device] for device in group], at)
        except Unlike:
            waiting += [[device] for device in group]
            continue
        for role, values in done.items():
            # A device with an empty piece has terms of nothing, which take part in sums as zero.
            found.setdefault(role, np.zeros((num_devices, *values.shape[len(group) > 1 :])))[at] = values
    for role, name in step.writes.items():
        devices.values[name] = found.get(role, np.zeros(num_devices))


def _computed(
    devices: Devices, step: Compute, layer: Layer, pieces: Sequence[Piece], at: Any
) -> Mapping[str, Array]:
    """Return what devices with some pieces write, by its role; ``at`` selects them from all."""
    nest = layer.nest(devices.program.graph.batch)
    reads = {role: devices.values[name][at] for role, name in step.reads.items()}
    error = reads.get("error")
    run = Run(
        value=layer.op.value,
        nest=nest,
        pieces=pieces,
        # A weight that is gathered takes the place of what devices hold of it.
        arrays={name: own[at] for name, own in devices.parameters.get(layer.name, {}).items()} | reads,
        sums=reads,
        back_sums={name: reads[f"back {name}"] for name in nest.sums if f"back {name}" in reads},
    )
    if step.kind == "statistics":
        return run.statistics(error)
    return {"output": run.forward()} if error is None else run.backward(error)


def finished(nest: Nest, value: Array, parameters: Arrays) -> Array:
    """Return the added terms of an output with the bias, on whichever elements a device has."""
    bias = nest.operands.get("bias")
    if not (bias and nest.weight):
        return value
    return value + aligned((*bias.axes,), parameters["bias"], (*nest.result.axes,))


def _finish(devices: Devices, step: Compute, layer: Layer) -> Array:
    nest, own = layer.nest(devices.program.graph.batch), devices.parameters.get(step.layer, {})
    return finished(nest, devices.values[step.reads["output"]], own)


def _loss(devices: Devices, step: Compute, layer: Layer) -> Array:
    """Return the errors, and note what each device adds to the loss: the elements that no device before it has."""
    there = mask(step.due["output"])
    parts, errors = loss(layer, np.where(there, devices.values[step.reads["output"]], np.nan))
    first = there & (there.cumsum(axis=0) == 1)
    added = np.where(first, parts, 0.0).reshape(len(parts), -1).sum(axis=1)
    devices.losses[step.layer] = devices.losses.get(step.layer, 0.0) + added
    return errors


def _added(devices: Devices, step: Compute, layer: Layer) -> Array:  # noqa: ARG001
    """Add up on every device the terms that it has, those of a gradient in the order of the layer whose weight it is.

    An element that a reader does not read has no error from it.
    """
    axes, found = {tie.user: tie.axes for tie in devices.program.graph.ties}, []
    for role, name in step.reads.items():
        values = devices.values[name]
        order = axes.get(role, range(values.ndim - 1))
        found.append(np.where(mask(step.due[role]), values.transpose(0, *(axis + 1 for axis in order)), 0.0))
    return np.asarray(sum(found))


def loss(layer: Layer, outputs: Array) -> tuple[Array, Array]:
    """Return what each element of an output, ``[..., batch, *shape]``, adds to the loss, and the derivative by it.

    Nothing reads the layer. Both are NaN for elements that are not there.
    """
    sizes = {"batch": outputs.shape[-1 - len(layer.shape)], **layer.shape}
    sums = layer.nest(1).sums if layer.op_name in SHARES else {}
    over = [dim for dim in layer.shape if sums and dim not in sums["exponential"].dims]
    count = math.prod(size for dim, size in sizes.items() if dim not in over)
    if not sums:
        distance = outputs - (2 * _drawn(sizes.values()) - 1)
        return distance**2 / 2 / count, distance / count
    classes = np.arange(math.prod(sizes[dim] for dim in over))
    places = classes.reshape([size if dim in over else 1 for dim, size in sizes.items()])
    drawn = _drawn(size for dim, size in sizes.items() if dim not in over)
    labels = np.expand_dims(np.floor(drawn * len(classes)), tuple([*sizes].index(dim) for dim in over))
    hits = labels == places
    return -np.log(outputs) * hits / count, -(hits / outputs) / count


def _drawn(sizes: Iterable[int]) -> Array:
    """Return a random number for each place of an array of some sizes, the samples first."""
    shape = [*sizes]
    return uniform(shape[1:], tuple(map(np.arange, shape)))


_WHOLE = {"finish": _finish, "loss": _loss, "error": _added, "tied": _added}
"""What is computed of the arrays of all devices at once."""
