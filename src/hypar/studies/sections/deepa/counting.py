"""Bytes of a plan's step, as an execution moves them and by several readings of DeePa's text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.costs.deepa import transfer_copies, update_copies
from hypar.machine.setting import Setting
from hypar.schedule.moves import moves_between, moves_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.schedule.moves import Move


@dataclass(frozen=True, slots=True, kw_only=True)
class Bytes:
    """Bytes that all devices receive in a step of one level, by cause.

    Attributes:
        gradients: sums of the gradients of weights.
        forward: tensors sent to the layers that read them, without the elements held already.
        unequal: the portion of ``forward`` between layers with unequal grids.
        backward: errors, and sums inside layers.
        copies: every weight with several copies, once for each device that holds one.
        whole: every tensor between unequal grids, whole, once for each shard of its reader's channels.
    """

    gradients: float
    forward: float
    unequal: float
    backward: float
    copies: float
    whole: float


READINGS: dict[str, Callable[[Bytes], float]] = {
    "moved": lambda found: found.gradients + found.forward + found.backward,
    "forward only": lambda found: found.gradients + found.forward,
    "estimates": lambda found: found.copies + found.whole,
    "Figure 15's": lambda found: 2 * found.copies + found.unequal,
}
"""The possible counts: all bytes that an execution moves; the same without errors, as section 3 defines xfer for the
input tensor alone; the estimates of Tables 2 and 3; each copy's gradient to a parameter server and its weight back, with
inputs forward between unequal grids."""


def count_bytes(
    plan: Plan, graph: LayerGraph, machine: Machine, wanted: Callable[[str], bool] = lambda _: True
) -> Bytes:
    """Count the bytes of a plan of one level.

    Args:
        plan: the plan.
        graph: its network.
        machine: its machine.
        wanted: whether a layer's own exchange, and the tensors that it reads, are counted.
    """
    setting = Setting(
        machine=machine, array=tuple(plan.array), element_bytes=graph.element_bytes, direct=True
    )
    nodes, size = graph.operators, graph.element_bytes
    choices = [plan.choices(layer.name) for layer in nodes.layers]
    inside: list[Move] = []
    copies = 0
    for layer, chosen in zip(nodes.layers, choices, strict=True):
        if wanted(layer.name):
            inside += moves_inside(setting, layer.einsum, layer.output_elements, chosen)
            copies += update_copies(layer, chosen[0]) * layer.einsum.elements("weight")
    between: list[Move] = []
    unequal: list[Move] = []
    whole = 0
    for tensor in nodes.tensors:
        layer, made, read = nodes.layers[tensor.consumer], choices[tensor.producer], choices[tensor.consumer]
        if wanted(layer.name):
            ends = (nodes.layers[tensor.producer].einsum, layer.einsum)
            found = moves_between(setting, ends, tensor.content, (made, read))
            sent = transfer_copies(made[0], read[0])
            between += found
            unequal += found if sent else ()
            whole += sent * tensor.elements
    moved = [*inside, *between]
    return Bytes(
        gradients=_total(moved, "gradient"),
        forward=_total(moved, "forward"),
        unequal=_total(unequal, "forward"),
        backward=_total(moved, "backward"),
        copies=size * copies,
        whole=size * whole,
    )


def _total(moves: Iterable[Move], phase: str) -> float:
    return math.fsum(move.total_bytes for move in moves if move.phase == phase)
