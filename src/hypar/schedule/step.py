"""A training step as tasks: forward through the network, backward through it, gradients, updates.

All devices are alike and do the same at the same time, so one device and its links stand for all. A layer
first gets its tensors, computes, then adds up what its cuts left partial; errors take the same way back. On a
machine without overlap the tasks run one after another; with it a task waits only for the
data that it reads and for its resource, so gradients are added up beside the rest of the backward phase.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hypar.placement import divisor
from hypar.regrids import Gap, regrid
from hypar.timeline import Task
from hypar.transfers import PHASE_OF, Transfer, between, borders, crossing, dim_of, halo, inside, simple
from hypar.words import COLLECTIVES, CUTTABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.graph import Content, ContractedGraph, CutLayer, Tensor
    from hypar.hardware import LayerTime, Machine
    from hypar.ops.base import Einsum
    from hypar.placement import Choice, Options
    from hypar.regrids import Regrid

COMPUTE = "devices"
"""The resource that computes: every device, doing the same."""

OPTIMIZERS = {"sgd": 0, "momentum": 1, "adam": 2}
"""Words of state for each weight."""


class Move(NamedTuple):
    """A transfer at one level.

    Attributes:
        phase: the phase that it belongs to.
        level: the level, 0 the outermost.
        seconds: how long it takes.
        part_bytes: bytes that each part of a group receives.
        total_bytes: bytes that all devices receive.
        collective: in what manner.
    """

    phase: str
    level: int
    seconds: float
    part_bytes: float
    total_bytes: float
    collective: str


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a step runs on and with.

    Attributes:
        machine: the devices and links.
        array: ways of each level, outermost first.
        element_bytes: bytes of one element.
        optimizer: one of ``OPTIMIZERS``.
        direct: whether sums go straight to where they are needed, in whole elements.
    """

    machine: Machine
    array: tuple[int, ...]
    element_bytes: int
    optimizer: str = "sgd"
    direct: bool = False

    @property
    def update_accesses(self) -> int:
        """Accesses for each weight: it and its state read and written, its gradient read."""
        return 3 + 2 * OPTIMIZERS[self.optimizer]

    def update_seconds(self, time: LayerTime) -> float:
        """An update is as long as its memory accesses on the fullest device."""
        return self.machine.memory_seconds(self.update_accesses * time.fullest["weight"] * self.element_bytes)


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


@lru_cache(maxsize=16384)
def degrees(chosen: Options) -> tuple[int, ...]:
    """Over how many pieces the choices of all levels divide each of ``CUTTABLE``."""
    return tuple(math.prod(choice.degree(dim) for choice in chosen) for dim in CUTTABLE)


def working(chosen: Options, array: Sequence[int]) -> int:
    """How many devices of an array work for a layer."""
    return math.prod(choice.devices(ways) for choice, ways in zip(chosen, array, strict=False))


@lru_cache(maxsize=16384)
def _left(einsum: Einsum, chosen: Options, part: str) -> tuple[float, ...]:
    """The part of a tensor or of a dim that a group has at each level."""
    found, total = [], 1.0
    for choice in chosen:
        found.append(total)
        total /= choice.degree(part) if part in CUTTABLE else divisor(einsum, choice, part)
    return tuple(found)


@lru_cache(maxsize=16384)
def moves_inside(setting: Setting, einsum: Einsum, output_elements: int, chosen: Options) -> tuple[Move, ...]:
    """What all levels add up inside a layer, innermost first: so the wider groups exchange sums."""
    found = []
    for level in reversed(range(len(chosen))):
        choice, ways = chosen[level], setting.array[level]
        groups = working(chosen[:level], setting.array)
        for transfer in inside(einsum, choice, ways, setting.direct):
            whole = output_elements if transfer.tensor == "output" else einsum.elements(transfer.tensor)
            amount = whole * _left(einsum, chosen, transfer.tensor)[level]
            found.append(_move(setting, transfer, level, amount, groups))
        for border in () if setting.direct else borders(einsum, choice, ways):
            parts = float(halo(border, _left(einsum, chosen, border.dim)[level]))
            transfer = Transfer(PHASE_OF["input"], "input", "neighbours", parts, choice.devices(ways))
            amount = einsum.input_elements * _left(einsum, chosen, "input")[level]
            found.append(_move(setting, transfer, level, amount, groups))
    return tuple(found)


@lru_cache(maxsize=16384)
def moves_between(
    setting: Setting, ends: tuple[Einsum, Einsum], content: Content, chosen: tuple[Options, Options]
) -> tuple[Move, ...]:
    """What all levels move of a tensor between two layers, outermost first."""
    found = []
    for level, (maker, reader) in enumerate(zip(*chosen, strict=True)):
        ways = setting.array[level]
        groups = working(chosen[1][:level], setting.array)
        if setting.direct or not (simple(maker, ways) and simple(reader, ways)):
            parts = tuple(_left(ends[1], chosen[1], dim)[level] for dim in ends[1].input)
            moves = regrid(Gap(ends, content, ways, parts, setting.direct), maker, reader)
            found += [_move(setting, transfer, level, 1.0, groups) for transfer in _single(moves)]
        else:
            amount = content.elements * _left(ends[1], chosen[1], "input")[level]
            moved = _between(
                ends,
                (maker, reader),
                content,
                _left(ends[1], chosen[1], dim_of(reader) or "input")[level],
                ways,
            )
            found += [_move(setting, transfer, level, amount, groups) for transfer in moved]
    return tuple(found)


def _between(
    ends: tuple[Einsum, Einsum], chosen: tuple[Choice, Choice], content: Content, size: float, ways: int
) -> list[Transfer]:
    """What simple choices move between two layers, the halo along with what moves in the same manner anyway."""
    made, read = ends
    args = (made, chosen[0], read, chosen[1], content.contracted, ways)
    moved = list(between(*args))
    for border in borders(read, chosen[1], ways):
        over = crossing(*args)
        if over is not None:
            extra = Transfer("forward", "input", over[0], over[1] * float(halo(border, size)), ways)
            moved = _with_halo(moved, extra)
    return moved


def _single(moves: Sequence[Regrid]) -> list[Transfer]:
    """The transfers of one pair of choices, in elements."""
    found = (
        Transfer(
            move.phase,
            "input",
            COLLECTIVES[int(move.collectives.reshape(-1)[0])],
            float(move.elements.reshape(-1)[0]),
            int(move.devices.reshape(-1)[0]),
        )
        for move in moves
    )
    return [transfer for transfer in found if transfer.parts]


def _with_halo(moved: list[Transfer], extra: Transfer) -> list[Transfer]:
    """Transfers with a halo."""
    for index, transfer in enumerate(moved):
        if transfer[:3] == extra[:3]:
            moved[index] = transfer._replace(parts=transfer.parts + extra.parts)
            return moved
    return [*moved, extra]


def _move(setting: Setting, transfer: Transfer, level: int, elements: float, groups: int) -> Move:
    """A transfer of so many elements of a group's tensor, at a level with so many groups at work."""
    group_bytes = transfer.parts * elements * setting.element_bytes
    part_bytes = group_bytes / transfer.devices
    return Move(
        phase=transfer.phase,
        level=level,
        seconds=setting.machine.links(setting.array)[level].seconds(transfer.collective, part_bytes),
        part_bytes=part_bytes,
        total_bytes=group_bytes * groups,
        collective=transfer.collective,
    )
