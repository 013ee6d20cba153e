"""Stages of consecutive layers, counted as the layer-block-wise pipeline counts them (Mori et al., MLSP 2017, Table II).

A stage holds its weights with the statistics of batch normalisations, the outputs of all its layers for every mini-batch
in flight, except outputs that only change the shape, and an error for each output of one mini-batch. Beyond the paper, the
tensors that it receives are counted for every mini-batch in flight. The memory of hypar's plans is that of
``schedule/memory.py`` instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from hypar.network.ops.base import elements_of
from hypar.planning.stages.running import kept_in_flight
from hypar.solve.partition import partition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer
    from hypar.solve.edge import Costs

SCHEDULE = "layer-block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage.

    Attributes:
        layers: its layers, in the network's order.
        macs: multiply-accumulates of its forward phase.
        memory: bytes of weights, gradients, activations, received tensors and errors.
        in_flight: the largest number of mini-batches whose activations it keeps.
        sent_bytes: bytes sent to the next stage.
        returned_bytes: bytes sent to the previous stage.
    """

    layers: tuple[str, ...]
    macs: int
    memory: Mapping[str, int]
    in_flight: int
    sent_bytes: int
    returned_bytes: int

    @property
    def memory_bytes(self) -> int:
        """Return the largest number of bytes that it holds."""
        return sum(self.memory.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """A network in stages; every number is of one mini-batch.

    Attributes:
        graph: the network.
        stages: first to last.
    """

    graph: LayerGraph
    stages: tuple[Stage, ...]

    @property
    def memory_bytes(self) -> int:
        """Return the largest number of bytes that all stages hold."""
        return sum(stage.memory_bytes for stage in self.stages)


def divided(graph: LayerGraph, starts: str) -> Blocks:
    """Divide a network into the stages that begin with given layers, separated by commas."""
    names = [layer.name for layer in graph.layers]
    inner = [names.index(name) for name in starts.split(",")[1:]]
    return _blocks(graph, (0, *inner, len(names)))


def balanced(graph: LayerGraph, stages: int, quantity: str) -> Blocks:
    """Divide a network into stages of which the costliest is as cheap as possible.

    Args:
        graph: the network.
        stages: the number of stages.
        quantity: ``macs`` or ``memory_bytes``, the quantity of a stage that counts.
    """
    # A stage that begins with the layer behind the input has the input too.
    places = [0, *range(2, len(graph.layers) + 1)]
    forward, backward = crossing(graph.layers)
    kept = kept_in_flight(SCHEDULE, stages, 1)

    def costs(number: int) -> Costs:
        found = np.full((len(places) - 1, len(places)), np.inf)
        for row, start in enumerate(places[:-1]):
            for column in range(row + 1, len(places)):
                found[row, column] = getattr(_stage(graph, (start, places[column]), kept[number]), quantity)
        return found

    seams = np.array([forward[place] + backward[place] for place in places], dtype=np.float64)
    best = partition(costs, stages, seams)
    assert best is not None  # noqa: S101 (without a limit every partition is possible)
    return _blocks(graph, [places[place] for place in best.bounds])


def _blocks(graph: LayerGraph, bounds: Sequence[int]) -> Blocks:
    """Return the stages between the given places."""
    kept = kept_in_flight(SCHEDULE, len(bounds) - 1, 1)
    spans = zip(pairwise(bounds), kept, strict=True)
    return Blocks(graph=graph, stages=tuple(_stage(graph, ends, own) for ends, own in spans))


def _stage(graph: LayerGraph, ends: tuple[int, int], in_flight: int) -> Stage:
    """Return the stage of the layers from one place to before another."""
    (start, end), layers = ends, graph.layers[slice(*ends)]
    forward, backward = crossing(graph.layers)
    size, image = graph.element_bytes, graph.element_bytes * graph.batch
    parameters = size * sum(layer.num_parameters for layer in layers)
    activations = image * sum(map(_elements, layers))
    return Stage(
        layers=tuple(layer.name for layer in layers),
        macs=sum(layer.macs(graph.batch) for layer in layers),
        memory={
            "weights": parameters + size * sum(layer.num_statistics for layer in layers),
            "gradients": parameters,
            "activations": in_flight * activations,
            "received": in_flight * image * forward[start],
            "errors": activations,
        },
        in_flight=in_flight,
        sent_bytes=image * forward[end],
        returned_bytes=image * backward[start],
    )


def _elements(layer: Layer) -> int:
    """Return the elements of one sample of a layer's output; 0 if it takes no memory of its own."""
    return 0 if layer.op.view else elements_of(layer.shape)


def crossing(layers: Sequence[Layer]) -> tuple[list[int], list[int]]:
    """Return the elements of one sample that cross each boundary between layers, and those of the errors that return.

    A tensor crosses every boundary from its layer to the last that reads it, once, whatever its shape; its
    error returns if a layer up to it is trained.
    """
    stored: dict[str, str] = {}
    trained: dict[str, bool] = {}
    last: dict[str, int] = {}
    for index, layer in enumerate(layers):
        stored[layer.name] = stored[layer.inputs[0]] if layer.op.view else layer.name
        trained[layer.name] = layer.num_parameters > 0 or any(trained[name] for name in layer.inputs)
        last.update((stored[name], index) for name in layer.inputs)
    forward, backward = ([0] * (len(layers) + 1) for _ in range(2))
    for index, layer in enumerate(layers):
        if layer.name in last and not layer.op.view:
            for changes in (forward, backward)[: 1 + trained[layer.name]]:
                changes[index + 1] += _elements(layer)
                changes[last[layer.name] + 1] -= _elements(layer)
    return list(accumulate(forward)), list(accumulate(backward))
