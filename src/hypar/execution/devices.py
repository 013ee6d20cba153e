"""What a training step starts from, and the arrays of simulated devices while they run its program."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.errors import ModelError

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.ops.base import Op
    from hypar.ops.nest import Nest
    from hypar.ops.tape import Array
    from hypar.program.lowering import Program, Update
    from hypar.sharding.layout import Numbers

LEARNING_RATE = 0.1
"""Rate of the stochastic gradient descent, without momentum, that updates parameters."""

Parameters = dict[str, dict[str, "Array"]]
"""Values of the trained tensors by their names in each layer, and those by the layer's name."""


class Start(NamedTuple):
    """What a step starts from.

    Attributes:
        data: the output of each layer ``input`` by its name.
        parameters: the initial values of all trained tensors.
    """

    data: dict[str, Array]
    parameters: Parameters


def start(graph: LayerGraph, seed: int = 0) -> Start:
    """Return random data and initial values of all parameters.

    Raises:
        ModelError: an opaque operation has trained tensors, whose gradients are not known.
    """
    random = np.random.default_rng(seed)
    data, parameters = {}, {}
    for layer in graph.layers:
        if not layer.inputs:
            data[layer.name] = random.normal(size=(graph.batch, *layer.shape.values()))
        if layer.op_name == "opaque" and layer.num_parameters:
            found = f"{layer.num_parameters:,} trained numbers in an opaque operation, which cannot be run"
            raise ModelError(layer.name, found, "ops that hypar knows")
        parameters[layer.name] = first_values(layer.op, layer.nest(graph.batch), random)
    return Start(data, parameters)


def first_values(op: Op, nest: Nest, random: np.random.Generator) -> dict[str, Array]:
    """Return first values of the trained tensors of an op, such that activations stay near 1."""
    terms = max(1.0, nest.macs / math.prod(nest.result.shape))
    means = {"weight": (0.0, 1 / math.sqrt(terms)) if nest.weight else (1.0 - op.adds, 0.1)}
    return {
        name: random.normal(*means.get(name, (0.0, 0.1)), own.shape) for name, own in nest.trained.items()
    }


@dataclass(frozen=True, kw_only=True)
class Devices:
    """The arrays of all devices.

    Attributes:
        program: the program that they run.
        arrived: for each transfer, by its number among the steps, the elements received so far, ``[levels, devices]``.
        elements: the elements that each device had of every array of a microbatch when it was written, ``[devices]``.
        values: each array by its name, ``[devices, *shape]``.
        parameters: each device's own elements of the trained tensors, each ``[devices, *shape]``.
        losses: what each device adds to the loss, by the output layer; elements that several devices hold count once.
    """

    program: Program
    arrived: dict[int, Numbers]
    elements: dict[str, Numbers] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)
    parameters: Parameters = field(default_factory=dict)
    losses: dict[str, Array] = field(default_factory=dict)

    @property
    def gradients(self) -> dict[str, Array]:
        """The gradient of each trained tensor by a name such as ``conv1.weight``, ``[devices, *shape]``."""
        updates = self.program.updates
        return {f"{update.layer}.{update.parameter}": self.values[update.gradient] for update in updates}

    def updated(self, update: Update) -> Array:
        """Return what each device holds of a trained tensor with its own update, ``[devices, *shape]``."""
        return self.parameters[update.layer][update.parameter] - LEARNING_RATE * self.values[update.gradient]

    @property
    def loss(self) -> float:
        """The loss of all microbatches."""
        return float(sum(values.sum() for values in self.losses.values()))
