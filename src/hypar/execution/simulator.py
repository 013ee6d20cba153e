"""A training step of a program on simulated devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution.exchange import add, copy, mask
from hypar.execution.kernels.base import Kernel
from hypar.execution.loss import loss
from hypar.program.steps import Add, Compute, Copy, Update
from hypar.registry import load_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hypar.execution.exchange import Array, Mask
    from hypar.execution.reference import Start
    from hypar.network.layer import Layer
    from hypar.program.places import Numbers
    from hypar.program.steps import Program


@dataclass(frozen=True, kw_only=True)
class Devices:
    """The arrays of all devices.

    Attributes:
        program: the program that they run.
        start: the samples and the initial parameters.
        values: each array by its name, ``[devices, *shape]``.
        held: the elements that each device should have of an array, where it does not have all or none.
        moved: for each transfer that was run, by its number among the steps, the elements received at each level.
        parameters: each device's own elements of the trained tensors, by layer and name.
        losses: what each device adds to the loss, by the output layer; elements that several devices hold count once.
    """

    program: Program
    start: Start
    values: dict[str, Array] = field(default_factory=dict)
    held: dict[str, Mask] = field(default_factory=dict)
    moved: dict[int, Numbers] = field(default_factory=dict)
    parameters: list[dict[str, dict[str, Array]]] = field(default_factory=list)
    losses: dict[str, Array] = field(default_factory=dict)

    @property
    def loss(self) -> float:
        """The loss, each element of an output counted once."""
        return float(sum(values.sum() for values in self.losses.values()))


def run(program: Program, start: Start, *, without: int | None = None) -> Devices:
    """Run a program.

    Args:
        program: the program.
        start: the samples and the initial parameters.
        without: the number of a transfer to leave out, to see what it is for.
    """
    devices = Devices(program=program, start=start)
    _load(devices)
    layers = {layer.name: layer for layer in program.graph.layers}
    for number, step in enumerate(program.steps):
        if isinstance(step, Copy):
            _copy(devices, step, number, drop=number == without)
        elif isinstance(step, Add):
            _add(devices, step, number, drop=number == without)
        elif isinstance(step, Compute):
            _compute(devices, step, layers[step.layer])
    return devices


def _load(devices: Devices) -> None:
    """Give every device the samples and its own elements of every parameter."""
    places, start = devices.program.places, devices.start
    for layer in devices.program.graph.layers:
        if not layer.inputs:
            values = start.data[layer.name]
            devices.values[f"F {layer.name}"] = np.broadcast_to(values, (places.devices, *values.shape))
    devices.parameters.extend({} for _ in range(places.devices))
    for update in devices.program.steps:
        if isinstance(update, Update):
            whole = start.parameters[update.layer][update.parameter]
            held = mask(update.holding)
            own = np.where(held, whole, np.nan)
            name = f"W {update.layer}.{update.parameter}"
            devices.values[name], devices.held[name] = own, held
            for device, values in enumerate(own):
                devices.parameters[device].setdefault(update.layer, {})[update.parameter] = values


def _copy(devices: Devices, step: Copy, number: int, *, drop: bool) -> None:
    need = mask(step.need)
    source = devices.values[step.source]
    if drop:
        devices.values[step.target] = np.full(source.shape, np.nan)
    else:
        found = copy(devices.program.places, source, mask(step.have), need)
        devices.values[step.target], devices.moved[number] = found
    devices.held[step.target] = need


def _add(devices: Devices, step: Add, number: int, *, drop: bool) -> None:
    need = mask(step.need)
    source = devices.values[step.source]
    if drop:
        devices.values[step.target] = np.where(need, np.nan_to_num(source), np.nan)
    else:
        found = add(devices.program.places, source, mask(step.terms), need, step.copies)
        devices.values[step.target], devices.moved[number] = found
    devices.held[step.target] = need


def _compute(devices: Devices, step: Compute, layer: Layer) -> None:
    """Run a step on every device that has a piece, and stack what they write."""
    kernel: Kernel = load_plugin("kernels", layer.op_name)
    results: list[Mapping[str, Array]] = []
    for device, piece in enumerate(step.pieces):
        reads = {role: devices.values[name][device] for role, name in step.reads.items()}
        own = devices.parameters[device].get(layer.name, {})
        done = {} if piece is None else _KINDS[step.kind](devices, step, layer, kernel, piece, reads, own)
        results.append(done)
    if step.kind == "loss":
        _add_up_loss(devices, step, layer, results)
    for role, name in step.writes.items():
        shape = next((done[role].shape for done in results if role in done), ())
        nothing = np.full(shape, np.nan)
        devices.values[name] = np.stack([done.get(role, nothing) for done in results])


def _inputs(reads: Mapping[str, Array]) -> tuple[Array, ...]:
    return tuple(values for role, values in reads.items() if role.startswith("input "))


def _sums(layer: Layer, reads: Mapping[str, Array], prefix: str = "") -> dict[str, Array]:
    names = layer.op.back_statistics if prefix else layer.op.statistics
    return {name: reads[prefix + name] for name in names}


def _forward(
    devices: Devices, step: Compute, layer: Layer, kernel: Kernel, piece: Any, reads: Any, own: Any
) -> dict[str, Array]:
    return {"output": kernel.forward(layer, _inputs(reads), own, piece, _sums(layer, reads))}


def _finish(
    devices: Devices, step: Compute, layer: Layer, kernel: Kernel, piece: Any, reads: Any, own: Any
) -> dict[str, Array]:
    values: Array = reads["output"]
    if "bias" in own:
        values = values + own["bias"].reshape(1, -1, *[1] * (values.ndim - 2))
    return {"output": values}


def _statistics(
    devices: Devices, step: Compute, layer: Layer, kernel: Kernel, piece: Any, reads: Any, own: Any
) -> dict[str, Array]:
    return kernel.sums(layer, _inputs(reads), piece)


def _back_statistics(
    devices: Devices, step: Compute, layer: Layer, kernel: Kernel, piece: Any, reads: Any, own: Any
) -> dict[str, Array]:
    return kernel.back_sums(layer, _inputs(reads), reads["error"], piece, _sums(layer, reads))


def _backward(
    devices: Devices, step: Compute, layer: Layer, kernel: Kernel, piece: Any, reads: Any, own: Any
) -> dict[str, Array]:
    sums, back = _sums(layer, reads), _sums(layer, reads, "back ")
    found = kernel.backward(layer, _inputs(reads), own, reads["error"], piece, sums, back)
    return {f"input {number}": values for number, values in enumerate(found.inputs)} | found.parameters


def _loss(
    devices: Devices, step: Compute, layer: Layer, kernel: Kernel, piece: Any, reads: Any, own: Any
) -> dict[str, Array]:
    box = tuple(piece.values())
    found = loss(layer, reads["output"], box)
    return {"error": found.error, "loss": np.asarray(found.value)}


def _add_up_loss(
    devices: Devices, step: Compute, layer: Layer, results: list[Mapping[str, Array]]
) -> None:
    """Note what each device adds to the loss: of devices with one box only the first."""
    boxes = [
        b"" if piece is None else b"|".join(own.tobytes() for own in piece.values()) for piece in step.pieces
    ]
    devices.losses[layer.name] = np.array(
        [
            0.0 if piece is None or boxes.index(box) < number else float(done["loss"])
            for number, (piece, box, done) in enumerate(zip(step.pieces, boxes, results, strict=True))
        ]
    )


def _error(
    devices: Devices, step: Compute, layer: Layer, kernel: Kernel, piece: Any, reads: Any, own: Any
) -> dict[str, Array]:
    """Add up what readers have sent; an element that a reader does not read has no error from it."""
    device = next(number for number, other in enumerate(step.pieces) if other is piece)
    found = 0.0
    for role, name in step.reads.items():
        found = found + np.where(devices.held[name][device], reads[role], 0.0)
    return {"error": np.asarray(found)}


_KINDS: dict[str, Callable[..., Mapping[str, Array]]] = {
    "forward": _forward,
    "finish": _finish,
    "sums": _statistics,
    "back_sums": _back_statistics,
    "backward": _backward,
    "loss": _loss,
    "error": _error,
}
