"""A training step as tasks: forward through the network, backward through it, gradients, updates.

All devices are alike and do the same at the same time, so one device and its links stand for all. A layer
first gets its tensors, computes, then adds up what its cuts left partial; errors take the same way back. On a
machine without overlap the tasks run one after another; with it a task waits only for the
data that it reads and for its resource, so gradients are added up beside the rest of the backward phase.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.schedule.moves import Move, moves_between, moves_inside
from hypar.schedule.setting import Setting, degrees, working
from hypar.timeline import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.graph import ContractedGraph, CutLayer, Tensor
    from hypar.hardware import LayerTime
    from hypar.placement import Options

COMPUTE = "devices"
"""The resource that computes: every device, doing the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A training step, lowered.

    Attributes:
        tasks: in an order in which they can run.
        layers: for each task the layer that it belongs to.
        moves: for each task its transfer; None for computation.
        times: for each layer its time on a device; None without a weight.
        working: for each layer how many devices work.
    """

    tasks: tuple[Task, ...]
    layers: tuple[int, ...]
    moves: tuple[Move | None, ...]
    times: tuple[LayerTime | None, ...]
    working: tuple[int, ...]


class _Lowering:
    """The tasks so far."""

    def __init__(self, setting: Setting, layers: Sequence[CutLayer]) -> None:
        self.setting = setting
        self.names = [layer.name for layer in layers]
        self.links = setting.machine.links(setting.array)
        self.serial = not setting.machine.overlap
        self.tasks: list[Task] = []
        self.layers: list[int] = []
        self.moves: list[Move | None] = []

    def add(
        self, layer: int, what: str, seconds: float, after: tuple[int, ...], move: Move | None = None
    ) -> int:
        """One task; returns its index."""
        index = len(self.tasks)
        if self.serial:
            after = (index - 1,) if index else ()
        resource = COMPUTE if move is None else self.links[move.level].resource
        kind = what if move is None else "communication"
        name = f"{self.names[layer]} {what}" + (
            "" if move is None else f" {move.collective} H{move.level + 1}"
        )
        self.tasks.append(Task(name, resource, seconds, after, kind))
        self.layers.append(layer)
        self.moves.append(move)
        return index

    def send(self, layer: int, moves: Sequence[Move], phase: str, after: tuple[int, ...]) -> tuple[int, ...]:
        """The transfers of a phase, one behind the other; returns what to wait for then."""
        for move in moves:
            if move.phase == phase:
                after = (self.add(layer, phase, move.seconds, after, move),)
        return after


def lower(graph: ContractedGraph, choices: Sequence[Options], setting: Setting) -> Step:
    """The tasks of one training step.

    Args:
        graph: the layers that are cut.
        choices: for each layer a choice at each level.
        setting: machine, array, optimizer.

    Raises:
        HardwareError: the array does not fit the machine.
    """
    lowering = _Lowering(setting, graph.layers)
    machine, size = setting.machine, setting.element_bytes
    times = tuple(
        machine.layer_time(layer.einsum, degrees(chosen), size) if layer.weighted else None
        for layer, chosen in zip(graph.layers, choices, strict=True)
    )
    inner = [
        moves_inside(setting, layer.einsum, layer.output_elements, chosen)
        for layer, chosen in zip(graph.layers, choices, strict=True)
    ]
    read_by: list[list[tuple[int, tuple[Move, ...]]]] = [[] for _ in graph.layers]
    made_by: list[list[tuple[int, tuple[Move, ...]]]] = [[] for _ in graph.layers]
    for tensor in graph.tensors:
        moves = _moves_of(setting, graph, tensor, choices)
        made_by[tensor.consumer].append((tensor.producer, moves))
        read_by[tensor.producer].append((tensor.consumer, moves))
    ready: list[tuple[int, ...]] = [()] * len(graph.layers)
    for layer, time in enumerate(times):
        after = tuple(
            index
            for producer, moves in made_by[layer]
            for index in lowering.send(layer, moves, "forward", ready[producer])
        )
        if time is not None:
            after = (lowering.add(layer, "forward", time.seconds["forward"], after),)
        ready[layer] = lowering.send(layer, inner[layer], "forward", after)
    _backward(lowering, times, inner, read_by, ready)
    return Step(
        tasks=tuple(lowering.tasks),
        layers=tuple(lowering.layers),
        moves=tuple(lowering.moves),
        times=times,
        working=tuple(working(chosen, setting.array) for chosen in choices),
    )


def _backward(
    lowering: _Lowering,
    times: Sequence[LayerTime | None],
    inner: Sequence[Sequence[Move]],
    read_by: Sequence[Sequence[tuple[int, tuple[Move, ...]]]],
    ready: Sequence[tuple[int, ...]],
) -> None:
    """Errors from the last layer to the first, and with each the gradient and the update of its weight."""
    errors: list[tuple[int, ...]] = [()] * len(times)
    for layer in reversed(range(len(times))):
        after = (
            tuple(
                index
                for consumer, moves in read_by[layer]
                for index in lowering.send(layer, moves, "backward", errors[consumer])
            )
            or ready[layer]
        )
        time = times[layer]
        if time is None:
            errors[layer] = lowering.send(layer, inner[layer], "backward", after)
            continue
        done: tuple[int, ...] = (lowering.add(layer, "backward", time.seconds["backward"], after),)
        errors[layer] = lowering.send(layer, inner[layer], "backward", done)
        summed: tuple[int, ...] = (lowering.add(layer, "gradient", time.seconds["gradient"], after),)
        summed = lowering.send(layer, inner[layer], "gradient", summed)
        lowering.add(layer, "update", lowering.setting.update_seconds(time), summed)


def _moves_of(
    setting: Setting, graph: ContractedGraph, tensor: Tensor, choices: Sequence[Options]
) -> tuple[Move, ...]:
    """The transfers between the two layers of a tensor."""
    ends = (graph.layers[tensor.producer].einsum, graph.layers[tensor.consumer].einsum)
    chosen = (choices[tensor.producer], choices[tensor.consumer])
    return moves_between(setting, ends, tensor.content, chosen)
