"""The bytes that each device holds at its fullest moment over a step of a program, from what a run has written.

The walk over a stage's layers is that of a score, with all rules of memory that training frameworks obey; the sizes of arrays are
the elements that each device had of them in the run, which steps name as ``lowering`` does. What no run has is counted otherwise:
a backward phase needs what its op keeps, as autograd saves it, though a kernel may compute the same from what the op has read, and
what arrives, or is summed in place of terms, lies in one buffer until then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hypar.program.steps import exchanges_gradients
from hypar.schedule.lifetimes import Arrays, Sent, ops_of
from hypar.schedule.liveness import held_at
from hypar.schedule.pipeline_orders import ALONE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.nodes import PlanGraph
    from hypar.program.layout import Numbers
    from hypar.program.lowering import Program
    from hypar.program.steps import Move
    from hypar.schedule.pipeline_orders import Moment

Bytes = NDArray[np.float64]
"""Bytes on each device, ``[devices]``."""

Place = tuple[int, int]
"""A stage, and one of its parts."""

UNCOUNTED = frozenset({"bias", "statistics"})
"""The tensors that have no memory of their own in a plan."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Training:
    """A run of a step whose memory is counted.

    Attributes:
        program: the program of a microbatch.
        nodes: the plan graph of its network.
        elements: the elements that each device had of every array when it was written, by its name, ``[devices]``.
        received: what each device received for each transfer, by its number, ``[levels, devices]``.
        element_bytes: bytes of an element.
        state: numbers of the optimizer's state for each weight; a run of one step has none.
        chunks: the layers that exchange their gradients together, by name.
        places: the stage of each layer and its part of it; the first ones for a layer that is not named.
        stages: the stage of each device; nothing for a plan without stages.
        moments: for each stage those at which it holds most.
    """

    program: Program
    nodes: PlanGraph
    elements: Mapping[str, Numbers]
    received: Mapping[int, Bytes]
    element_bytes: int
    state: int = 0
    chunks: Sequence[frozenset[str]] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    stages: Sequence[int] = ()
    moments: Sequence[Sequence[Moment]] = (ALONE,)

    def held(self) -> dict[str, Bytes]:
        """Return the bytes that each device holds at its fullest moment, item by item as a score does."""
        devices = self.program.places.devices
        tensors, stages = np.zeros(devices), np.array(self.stages or (0,) * devices)
        for stage in range(len(self.moments)):
            tensors[stages == stage] = self._peak(stage)[stages == stage]
        return {
            "weights": self._weights,
            "gradients": self._weights,
            "optimizer": self.state * self._weights,
            "tensors": tensors,
            "buffers": self.element_bytes * _buffers(self),
        }

    @cached_property
    def _weights(self) -> Bytes:
        """The bytes of weights on each device."""
        weighted, found = (
            {node.name for node in self.nodes.layers if node.weighted},
            np.zeros(self.program.places.devices),
        )
        for step in self.program.updates:
            if step.layer in weighted and step.parameter not in UNCOUNTED:
                found += self.element_bytes * step.holding.elements
        return found

    @cached_property
    def place_of(self) -> Mapping[str, Place]:
        """The stage and its part to which each layer belongs: a layer without cuts to that of the tensor that it reads."""
        return {op.name: self.places.get(node.name, (0, 0)) for node in self.nodes.layers for op in node.ops}

    def _peak(self, stage: int) -> Bytes:
        """Return the most bytes of activations and errors at once on the devices, if they are those of a stage."""
        of = [self.place_of[node.name] for node in self.nodes.layers]
        own = {at: number for number, at in enumerate(at for at, (its, _) in enumerate(of) if its == stage)}
        firsts = {of[at][1]: (number, at) for at, number in reversed(own.items())}
        sent = tuple(
            Sent(own[tensor.producer], tensor.number, tensor.consumer)
            for tensor in self.nodes.tensors
            if tensor.producer in own and tensor.consumer not in own
        )
        ops = ops_of(
            tuple(self.nodes.layers[at] for at in own), sent, tuple(firsts[part] for part in sorted(firsts))
        )
        arrays = Arrays(ops, self.program.fragments, self.element_bytes, self.elements)
        each = np.zeros(len(arrays.kinds.first[0]))
        for kinds, course in arrays.courses(len(firsts)):
            each[kinds] = held_at(course.pieces, self.moments[stage])
        return np.asarray(np.broadcast_to(each[arrays.kinds.number], self.program.places.devices))


def _buffers(run: Training) -> Bytes:
    """Return the room in elements of each device for the largest transfer.

    A transfer is what arrives for one tensor or one chunk of gradients at a level, as a collective is called for one of these; of
    what other stages have made everything that a phase needs, as its work begins when all of it is there.
    """
    together: dict[object, Bytes] = {}
    devices, transfers = run.program.places.devices, run.program.transfers
    for number, received in run.received.items():
        step = transfers[number]
        if step.item.tensor in UNCOUNTED:
            continue
        key: object = number
        if exchanges_gradients(step):
            key = next((chunk for chunk in run.chunks if step.item.layer in chunk), number)
        for level, own in enumerate(received):
            at = (step.item.phase, run.place_of[_to(step)]) if _crosses(step) else (level, key)
            together[at] = together.get(at, 0) + own
    return np.asarray(np.max([np.zeros(devices), *together.values()], axis=0))


def _to(step: Move) -> str:
    """Return the layer to whose stage a transfer comes."""
    return step.item.maker if step.item.maker and step.item.phase == "backward" else step.item.layer


def _crosses(step: Move) -> bool:
    """Return whether a transfer brings a tensor from one stage to another: no device has elements at both ends."""
    sums = step.transfer.kind == "add"
    return not (sums or step.transfer.have.meets(step.transfer.need))
