"""What devices compute in a step of a program, each on its own piece."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution.exchange import mask
from hypar.execution.loss import loss
from hypar.ops.run import Run, finished

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hypar.execution.devices import Devices
    from hypar.network.layer import Layer
    from hypar.ops.nest import Nest
    from hypar.ops.run import Piece
    from hypar.ops.tape import Array
    from hypar.program.steps import Compute


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The computation of one device in a step.

    Attributes:
        layer: the layer.
        nest: its loop nest.
        piece: the indices of each dim that the device computes.
        reads: the arrays that it reads, by their role.
        own: the device's elements of the layer's trained tensors.
    """

    layer: Layer
    nest: Nest
    piece: Piece
    reads: Mapping[str, Array]
    own: Mapping[str, Array]

    @property
    def inputs(self) -> tuple[Array, ...]:
        """What it reads of the layer's inputs."""
        return tuple(values for role, values in self.reads.items() if role.startswith("input "))

    def sums(self, before: str = "") -> dict[str, Array]:
        """Return the sums of the forward pass, or with ``back `` before their names of the backward pass."""
        roles = {name: before + name for name, own in self.nest.sums.items() if own.backward is bool(before)}
        return {name: self.reads[role] for name, role in roles.items() if role in self.reads}

    def run(self, **known: Any) -> Run:
        """Return an evaluation of the op on the piece."""
        known = {"sums": self.sums(), **known}
        return Run(
            value=self.layer.op.value,
            nest=self.nest,
            piece=self.piece,
            inputs=self.inputs,
            parameters=self.own,
            **known,
        )


def compute(devices: Devices, step: Compute) -> None:
    """Run a step on every device that has a piece, and stack what they write."""
    graph = devices.program.graph
    layer = next(layer for layer in graph.layers if layer.name == step.layer)
    nest = layer.nest(graph.batch)
    if step.kind in _WHOLE:
        (made,) = step.writes.values()
        devices.values[made] = _WHOLE[step.kind](devices, step, nest)
        return
    results: list[Mapping[str, Array]] = []
    for device, piece in enumerate(step.pieces):
        if piece is None:
            results.append({})
            continue
        task = Task(
            layer=layer,
            nest=nest,
            piece=piece,
            reads={role: devices.values[name][device] for role, name in step.reads.items()},
            own=devices.parameters[device].get(layer.name, {}),
        )
        results.append(_KINDS[step.kind](task))
    if step.kind == "loss":
        _add_up_loss(devices, step, results)
    for role, name in step.writes.items():
        shape = next((done[role].shape for done in results if role in done), ())
        # A device with an empty piece has terms of nothing, which take part in sums as zero.
        devices.values[name] = np.stack([done.get(role, np.zeros(shape)) for done in results])


def _add_up_loss(devices: Devices, step: Compute, results: Sequence[Mapping[str, Array]]) -> None:
    """Note what each device adds to the loss: the elements that no device before it has."""
    shape = next(done["loss"].shape for done in results if done)
    losses = devices.losses.setdefault(step.layer, np.zeros(len(results)))
    counted = np.zeros(shape, np.bool_)
    for number, (piece, done) in enumerate(zip(step.pieces, results, strict=True)):
        if piece is not None:
            box = np.ix_(*piece.values())
            losses[number] += done["loss"][box][~counted[box]].sum()
            counted[box] = True


def _forward(task: Task) -> dict[str, Array]:
    return {"output": task.run().forward()}


def _statistics(task: Task) -> dict[str, Array]:
    """Return the terms of the sums of a phase; of the backward phase if an error is read."""
    error = task.reads.get("error")
    return task.run(**({"sums": None} if error is None else {})).statistics(error)


def _backward(task: Task) -> dict[str, Array]:
    found = task.run(back_sums=task.sums("back ")).backward(task.reads["error"])
    return {"input 0" if name == "input" else name: values for name, values in found.items()}


def _loss(task: Task) -> dict[str, Array]:
    found = loss(task.layer, task.reads["output"], tuple(task.piece.values()))
    return {"error": found.error, "loss": found.parts}


_KINDS: dict[str, Callable[[Task], dict[str, Array]]] = {
    "forward": _forward, "statistics": _statistics, "backward": _backward, "loss": _loss,
}  # fmt: skip


def _finish(devices: Devices, step: Compute, nest: Nest) -> Array:
    """Finish sums on every device, on whichever channels it has them."""
    sums = zip(devices.values[step.reads["output"]], devices.parameters, strict=True)
    return np.stack([finished(nest, values, own.get(step.layer, {})) for values, own in sums])


def _added(devices: Devices, step: Compute, nest: Nest) -> Array:  # noqa: ARG001
    """Add up on every device the terms that it has, those of a gradient in the order of the layer whose weight it is.

    An element that a reader does not read has no error from it.
    """
    axes, found = {tie.user: tie.axes for tie in devices.program.graph.ties}, []
    for role, name in step.reads.items():
        values = devices.values[name]
        order = axes.get(role, range(values.ndim - 1))
        found.append(np.where(mask(step.due[role]), values.transpose(0, *(axis + 1 for axis in order)), 0.0))
    return np.asarray(sum(found))


_WHOLE = {"finish": _finish, "error": _added, "tied": _added}
"""What is computed of the arrays of all devices at once."""
