"""A training step of a program on simulated devices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hypar.execution.compute import compute
from hypar.execution.devices import Devices
from hypar.execution.exchange import add, copy, mask
from hypar.program.steps import Add, Compute, Copy, Update, exchanges_gradients, reads, writes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.execution.reference import Start
    from hypar.program.layout import Numbers
    from hypar.program.steps import Program, Step


def run(program: Program, starts: Sequence[Start], *, without: int | None = None) -> Devices:
    """Run a program for each microbatch, and then exchange the gradients of all of them.

    Args:
        program: the program of a microbatch.
        starts: the samples of each microbatch, with the same initial parameters.
        without: the number of a transfer to leave out, to see what it is for.
    """
    devices = Devices(program=program, arrived={number: _nothing(program) for number in program.transfers})
    _load(devices, starts[0])
    last = _last_reads(program)
    for start in starts:
        _load_samples(devices, start)
        gradients = {name: devices.values[name] for name in program.accumulated if name in devices.values}
        for number, step in enumerate(program.steps):
            if not exchanges_gradients(step):
                _do(devices, step, number, drop=number == without)
                _note(devices, step)
            for name in last.get(number, ()):
                devices.values.pop(name, None)
        for name, before in gradients.items():
            devices.values[name] = devices.values[name] + before
    for number, step in enumerate(program.steps):
        if exchanges_gradients(step):
            _do(devices, step, number, drop=number == without)
    return devices


def most_elements(program: Program) -> int:
    """Return the elements that a run of a program holds at once at most, in arrays of the whole size on every device."""
    last, sizes, held, most = _last_reads(program), _sizes(program), 0, 0
    parameters = sum(layer.num_parameters for layer in program.graph.layers)
    for number, step in enumerate(program.steps):
        held += sum(sizes[name] for name in writes(step))
        most = max(most, held)
        held -= sum(sizes.get(name, 0) for name in last.get(number, ()))
    return (most + parameters) * program.places.devices


def _sizes(program: Program) -> dict[str, int]:
    """Return the elements of each array that steps write, but for statistics, which are small."""
    layers = {layer.name: layer for layer in program.graph.layers}
    found = {}
    for step in program.steps:
        if isinstance(step, Copy | Add):
            found[step.target] = math.prod(step.need.shape)
        elif isinstance(step, Compute):
            layer, batch = layers[step.layer], program.graph.batch
            own = {f"input {at}": math.prod(shape.values()) for at, shape in enumerate(layer.input_shapes)}
            own |= dict.fromkeys(("output", "error"), math.prod(layer.shape.values()))
            elements = {role: batch * size for role, size in own.items()}
            elements |= {name: math.prod(own.shape) for name, own in layer.trained.items()}
            found |= {name: elements.get(role, 0) for role, name in step.writes.items()}
    return found


def _last_reads(program: Program) -> dict[int, list[str]]:
    """Return the arrays that no later step of a microbatch reads, by the number of the step that reads or writes them last."""
    kept = set(program.accumulated)
    for step in program.steps:
        if isinstance(step, Update) or exchanges_gradients(step):
            kept |= {*reads(step), *writes(step)}
    last: dict[str, int] = {}
    for number, step in enumerate(program.steps):
        last |= dict.fromkeys([*reads(step), *writes(step)], number)
    found: dict[int, list[str]] = {}
    for name in last.keys() - kept:
        found.setdefault(last[name], []).append(name)
    return found


def _note(devices: Devices, step: Step) -> None:
    """Note the elements that devices have of the arrays that a step has written, without the zeros of those that compute nothing."""
    for name in writes(step):
        if name not in devices.elements:
            there = ~np.isnan(devices.values[name])
            count = there.reshape(len(there), -1).sum(axis=1)
            if isinstance(step, Compute):
                sizes = np.array(
                    [0 if piece is None else math.prod(map(len, piece.values())) for piece in step.pieces]
                )
                count = sizes if step.kind == "error" else np.where(sizes > 0, count, 0)
            devices.elements[name] = count


def _nothing(program: Program) -> Numbers:
    return np.zeros((len(program.places.parts), program.places.devices), np.int64)


def _do(devices: Devices, step: Step, number: int, *, drop: bool) -> None:
    """Run one step; a transfer that is dropped leaves terms unsummed, or nothing."""
    if isinstance(step, Compute):
        compute(devices, step)
    elif isinstance(step, Copy | Add):
        places, source, need = devices.program.places, devices.values[step.source], mask(step.need)
        if drop:
            left = need & mask(step.have) if isinstance(step, Add) else False
            devices.values[step.target] = np.where(left, source, np.nan)
            return
        if isinstance(step, Copy):
            found, arrived = copy(places, source, mask(step.have), need)
        else:
            found, arrived = add(places, source, mask(step.have), need, step.copies, rest=step.rest)
        devices.values[step.target] = found
        devices.arrived[number] += arrived


def _load_samples(devices: Devices, start: Start) -> None:
    """Give every device the samples."""
    for name, values in start.data.items():
        devices.values[f"F {name}"] = np.broadcast_to(values, (devices.program.places.devices, *values.shape))


def _load(devices: Devices, start: Start) -> None:
    """Give every device its own elements of every parameter."""
    for update in devices.program.steps:
        if isinstance(update, Update):
            whole = start.parameters[update.layer][update.parameter]
            held = mask(update.holding)
            own = np.where(held, whole, np.nan)
            name = f"W {update.layer}.{update.parameter}"
            devices.values[name], devices.held[name] = own, held
            devices.parameters.setdefault(update.layer, {})[update.parameter] = own
            for tie in update.ties:
                tied = np.transpose(own, (0, *(axis + 1 for axis in tie.back)))
                devices.parameters.setdefault(tie.user, {})[update.parameter] = tied
