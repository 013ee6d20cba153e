"""A training step of a program on simulated devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.execution.compute import compute
from hypar.execution.devices import Devices
from hypar.execution.exchange import add, copy, mask
from hypar.execution.lifetimes import exchanges_gradients, last_reads
from hypar.program.steps import Add, Compute, Copy, Update

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.execution.reference import Start
    from hypar.program.layout import Numbers
    from hypar.program.steps import Program, Step

    Watching = Callable[[Devices, Step], None]


def run(
    program: Program, starts: Sequence[Start], *, without: int | None = None, watch: Watching | None = None
) -> Devices:
    """Run a program for each microbatch, and then exchange the gradients of all of them.

    Args:
        program: the program of a microbatch.
        starts: the samples of each microbatch, with the same initial parameters.
        without: the number of a transfer to leave out, to see what it is for.
        watch: called with the devices and each step of a microbatch after the step.
    """
    devices = Devices(program=program, arrived={number: _nothing(program) for number in program.transfers})
    _load(devices, starts[0])
    last = last_reads(program)
    for start in starts:
        _load_samples(devices, start)
        gradients = {name: devices.values[name] for name in program.accumulated if name in devices.values}
        for number, step in enumerate(program.steps):
            if not exchanges_gradients(step):
                _do(devices, step, number, drop=number == without)
                if watch is not None:
                    watch(devices, step)
            for name in last.get(number, ()):
                devices.values.pop(name, None)
        for name, before in gradients.items():
            devices.values[name] = devices.values[name] + before
    for number, step in enumerate(program.steps):
        if exchanges_gradients(step):
            _do(devices, step, number, drop=number == without)
    return devices


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
            found, arrived = add(places, source, mask(step.have), need, step.copies)
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
