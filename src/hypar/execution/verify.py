"""Verification of a program: a training step on simulated devices against one device, and its bytes against their count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hypar.execution.exchange import mask, moved
from hypar.execution.simulator import LEARNING_RATE, Devices, Parameters, run, start
from hypar.network.graph import LayerGraph
from hypar.ops.tape import Array
from hypar.program.lowering import Item, Program, lower
from hypar.sharding.layout import Layout, Numbers, Places

TOLERANCE = 1e-10
"""Largest error of a number, relative to the largest of its tensor."""

BOUNDS = (1e-12, TOLERANCE)
"""Bounds of the errors that are stated; their digits depend on the processor and the number of threads."""

SMALL = 1e-2
"""A gradient that is zero but for rounding is held against this much of the largest one, or of the loss.

The gradient of a bias before batch normalisation is zero, and every gradient is where all samples are alike."""


class Checked(NamedTuple):
    """A transfer, the elements that each level moves by the count, and those that were received there in a run."""

    item: Item
    counted: Numbers
    moved: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a run of a program shows.

    Attributes:
        transfers: every transfer in order.
        loss: the loss on the devices.
        expected_loss: the loss on one device.
        errors: for each trained tensor the largest error of its gradient and of its updated values on any device, relative
            to the largest value; infinite where an element is missing.
        zero: the trained tensors whose gradient on one device is zero everywhere, so that it proves nothing.
        elements: the elements that each device had of every array of a microbatch, by the array's name.
        arrived: the elements that devices received for each transfer of a microbatch, by its number, ``[levels, devices]``.
    """

    transfers: tuple[Checked, ...]
    loss: float
    expected_loss: float
    errors: dict[str, float]
    zero: tuple[str, ...] = ()
    elements: Mapping[str, Numbers] = field(default_factory=dict)
    arrived: Mapping[int, Numbers] = field(default_factory=dict)

    @property
    def worst(self) -> float:
        """The largest error of the loss, a gradient or an updated value."""
        loss, expected = np.array(self.loss), np.array(self.expected_loss)
        return max(_error(loss, expected, np.array(True), 0.0), *self.errors.values())

    @property
    def worst_tensor(self) -> str:
        """The trained tensor with the largest error."""
        return max(self.errors, key=self.errors.__getitem__)

    @property
    def error_below(self) -> float | None:
        """The least of ``BOUNDS`` that no error exceeds; None if one exceeds the tolerance."""
        return next((bound for bound in BOUNDS if self.worst <= bound), None)


def verify_program(
    program: Program, *, microbatches: int = 1, seed: int = 0, without: int | None = None
) -> Verification:
    """Run the program of a microbatch for each one, and hold it against one device and against its own count.

    A transfer may be left out, by its number among the steps, which must show.
    """
    first, one = start(program.graph, seed), alone(program.graph)
    samples = [start(program.graph, seed + number).data for number in range(microbatches)]
    expected = [run(one, [first._replace(data=data)]) for data in samples]
    devices = run(program, [first._replace(data=data) for data in samples], without=without)
    whole = {name: sum(step.gradients[name][0] for step in expected) for name in expected[0].gradients}
    each = zip(counted(program, microbatches), devices.arrived.values(), strict=True)
    transfers = tuple(Checked(*own, arrived.sum(axis=1)) for own, arrived in each)
    expected_loss = sum(step.loss for step in expected)
    return Verification(
        transfers=transfers,
        loss=devices.loss,
        expected_loss=expected_loss,
        errors=_errors(devices, first.parameters, whole, abs(expected_loss)),
        zero=tuple(name for name, own in whole.items() if not own.any()),
        elements=devices.elements,
        arrived={
            number: own // (1 if program.steps[number].once else microbatches)
            for number, own in devices.arrived.items()
        },
    )


def counted(program: Program, microbatches: int = 1) -> Iterator[tuple[Item, Numbers]]:
    """Yield what each transfer is for, and the elements that each level moves in a mini-batch."""
    for step in program.transfers.values():
        yield step.item, (1 if step.once else microbatches) * moved(program.places, step.transfer)


def alone(graph: LayerGraph) -> Program:
    """Return the program of a training step on one device."""
    whole = Layout(Places((np.zeros(1, np.int64),)), ({},), np.ones(1, bool))
    return lower(graph, whole.places, dict.fromkeys([node.name for node in graph.contracted.layers], whole))


def _errors(
    devices: Devices, parameters: Parameters, whole: Mapping[str, Array], loss: float
) -> dict[str, float]:
    found, largest = {}, max([loss, *(float(np.abs(own).max()) for own in whole.values())])
    for update, (name, gradient) in zip(devices.program.updates, devices.gradients.items(), strict=True):
        rest, held = (mask(own) for own in (update.rest or update.holding, update.holding))
        updated = devices.values[update.gathered] if update.gathered else devices.updated(update)
        after = parameters[update.layer][update.parameter] - LEARNING_RATE * whole[name]
        pairs = (gradient, whole[name], rest), (updated, after, held)
        found[name] = max(_error(*own, SMALL * largest) for own in pairs)
    return found


def _error(own: np.ndarray, whole: np.ndarray, held: np.ndarray, least: float) -> float:
    scale = max(float(np.abs(whole).max()), least) or 1.0
    difference = np.abs(own - whole)[held].max(initial=0.0)
    return float(np.nan_to_num(difference / scale, nan=np.inf, posinf=np.inf))
