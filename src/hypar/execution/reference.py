"""The reference: a whole training step on one device, by the same kernels that devices run on their pieces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hypar.errors import ModelError
from hypar.execution.loss import loss, outputs
from hypar.ops.nest import operand_name
from hypar.ops.run import Run
from hypar.ops.tape import aligned

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer
    from hypar.ops.base import Op
    from hypar.ops.nest import Nest
    from hypar.ops.run import Arrays
    from hypar.ops.tape import Array

LEARNING_RATE = 0.1
"""Rate of the stochastic gradient descent, without momentum, that updates parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a step starts from.

    Attributes:
        data: the output of each layer ``input`` by its name.
        parameters: values of the trained parameters by their names in each layer, and those by the layer's name.
    """

    data: dict[str, Array]
    parameters: dict[str, dict[str, Array]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A training step, every array of the whole size.

    Attributes:
        activations: output of each layer by its name.
        errors: derivative of the loss by each output.
        parameters: values of the trained parameters before the step, by names such as ``conv1.weight``.
        loss: the loss of the mini-batch.
        gradients: derivative of the loss by each parameter.
        updated: values of the parameters after the step.
    """

    activations: dict[str, Array]
    errors: dict[str, Array]
    parameters: dict[str, Array]
    loss: float
    gradients: dict[str, Array]
    updated: dict[str, Array]


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
    for tie in graph.ties:
        parameters[tie.user]["weight"] = np.transpose(parameters[tie.owner]["weight"], tie.back)
    return Start(data=data, parameters=parameters)


def step(graph: LayerGraph, seed: int = 0) -> Step:
    """Run a training step on one device.

    Args:
        graph: the network, with its mini-batch.
        seed: seed of the data and of the parameters' initial values.
    """
    return step_from(graph, start(graph, seed))


def step_from(graph: LayerGraph, begin: Start) -> Step:
    """Run a training step on one device from given data and parameters."""
    run = _Run(graph, begin)
    for layer in graph.layers:
        run.forward(layer)
    total = run.lose()
    for layer in reversed(graph.layers):
        run.backward(layer)
    gradients = by_name(run.gradients)
    for tie in graph.ties:
        own = np.transpose(gradients.pop(f"{tie.user}.weight"), tie.axes)
        gradients[f"{tie.owner}.weight"] = gradients[f"{tie.owner}.weight"] + own
    before = {name: value for name, value in by_name(begin.parameters).items() if name in gradients}
    return Step(
        activations=run.activations,
        errors=run.errors,
        parameters=before,
        loss=total,
        gradients=gradients,
        updated={name: updated(value, gradients[name]) for name, value in before.items()},
    )


def first_values(op: Op, nest: Nest, random: np.random.Generator) -> dict[str, Array]:
    """Return first values of the trained tensors of an op, such that activations stay near 1."""
    terms = max(1.0, nest.macs / math.prod(nest.result.shape))
    means = {"weight": (0.0, 1 / math.sqrt(terms)) if nest.weight else (1.0 - op.adds, 0.1)}
    return {
        name: random.normal(*means.get(name, (0.0, 0.1)), own.shape) for name, own in nest.trained.items()
    }


def updated(value: Array, gradient: Array) -> Array:
    """Return a parameter after the step."""
    return value - LEARNING_RATE * gradient


def by_name(values: dict[str, dict[str, Array]]) -> dict[str, Array]:
    """Return parameters by names such as ``conv1.weight``."""
    return {f"{layer}.{name}": value for layer, held in values.items() for name, value in held.items()}


class _Run:
    """A step under way on one device."""

    def __init__(self, graph: LayerGraph, begin: Start) -> None:
        self.graph, self.begin = graph, begin
        self.activations: dict[str, Array] = {}
        self.errors: dict[str, Array] = {}
        self.gradients: dict[str, dict[str, Array]] = {}

    def whole(self, layer: Layer) -> Run:
        """Return the evaluation of a layer's op."""
        read = {operand_name(number): self.activations[name] for number, name in enumerate(layer.inputs)}
        read |= {} if layer.inputs else {"input": self.begin.data[layer.name]}
        arrays = read | self.begin.parameters[layer.name]
        return Run(value=layer.op.value, nest=layer.nest(self.graph.batch), pieces=[{}], arrays=arrays)

    def forward(self, layer: Layer) -> None:
        """Compute a layer's output."""
        run = self.whole(layer)
        self.activations[layer.name] = finished(run.nest, run.forward(), run.arrays)

    def lose(self) -> float:
        """Return the loss and start the backward phase with its derivatives; other errors start at zero."""
        self.errors = {name: np.zeros(value.shape) for name, value in self.activations.items()}
        total = 0.0
        for layer in outputs(self.graph):
            value = self.activations[layer.name]
            found = loss(layer, value, tuple(map(np.arange, value.shape)))
            total += found.value
            self.errors[layer.name] = found.error
        return total

    def backward(self, layer: Layer) -> None:
        """Compute a layer's gradients, and add its inputs' errors to those of their other readers."""
        run = self.whole(layer)
        found = run.backward(self.errors[layer.name])
        self.gradients[layer.name] = {name: found[name] for name in run.nest.trained}
        for number, (name, read) in enumerate(zip(layer.inputs, run.reads(), strict=False)):
            back = found[operand_name(number)]
            self.errors[name] = self.errors[name] + np.where(read, back, 0.0)


def finished(nest: Nest, value: Array, parameters: Arrays) -> Array:
    """Return the added terms of an output with the bias, on whichever elements a device has."""
    bias = nest.operands.get("bias")
    if not (bias and nest.weight):
        return value
    return value + aligned((*bias.axes,), parameters["bias"], (*nest.result.axes,))
