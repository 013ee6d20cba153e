"""A training step of a program on simulated devices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hypar.execution.compute import Devices, Parameters, Start, compute
from hypar.execution.exchange import add, copy, mask, reduced
from hypar.ops.tape import Array
from hypar.program.lowering import Compute, Move, Program, Step, Update, runs_once


def run(program: Program, starts: Sequence[Start], *, without: int | None = None) -> Devices:
    """Run a program for each microbatch, and then exchange the gradients of all of them.

    Args:
        program: the program of a microbatch.
        starts: the samples of each microbatch; the parameters are those of the first.
        without: the number of a transfer to leave out, to see what it is for.
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
            if not runs_once(step):
                _do(devices, step, number, drop=number == without)
                _note(devices, step)
            for name in last.get(number, ()):
                devices.values.pop(name, None)
        for name, before in gradients.items():
            devices.values[name] = devices.values[name] + before
    for number, step in enumerate(program.steps):
        if runs_once(step):
            _do(devices, step, number, drop=number == without)
    return devices


def _arrays(step: Step) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the arrays that a step reads, and those that it writes."""
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
    late = [step for step in program.steps if runs_once(step)]
    reads, writes = zip(*map(_arrays, late), strict=True)
    return set().union(*reads), set().union(*writes)


def _note(devices: Devices, step: Step) -> None:
    """Note the elements that devices have of the arrays that a step has written, without the zeros of those that compute nothing."""
    for name in _arrays(step)[1]:
        if name not in devices.elements:
            there = ~np.isnan(devices.values[name])
            count = there.reshape(len(there), -1).sum(axis=1)
            if isinstance(step, Compute):
                sizes = [0 if piece is None else math.prod(map(len, piece.values())) for piece in step.pieces]
                count = np.array(sizes) if step.kind == "error" else np.where(sizes, count, 0)
            devices.elements[name] = count


def _do(devices: Devices, step: Step, number: int, *, drop: bool) -> None:
    """Run one step; a transfer that is dropped leaves terms unsummed, or nothing."""
    if isinstance(step, Compute):
        compute(devices, step)
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


def _read(devices: Devices, step: Move) -> Array:
    """Return the array that a transfer reads: of a weight for a phase what devices hold of it."""
    if step.item.phase == "weight" and not step.once:
        return devices.parameters[step.item.layer][step.item.tensor]
    return devices.values[step.source]


def _load(devices: Devices, parameters: Parameters) -> None:
    """Give every device its own elements of every parameter."""
    for update in devices.program.updates:
        whole = parameters[update.layer][update.parameter]
        own = np.where(mask(update.holding), whole, np.nan)
        devices.parameters.setdefault(update.layer, {})[update.parameter] = own
        for tie in update.ties:
            tied = np.transpose(own, (0, *(axis + 1 for axis in np.argsort(tie.axes))))
            devices.parameters.setdefault(tie.user, {})[update.parameter] = tied
