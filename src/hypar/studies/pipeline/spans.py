"""What any span of a network's layers holds, computes and sends, as numbers.

Counted as the layer-block-wise pipeline does (Mori et al., MLSP 2017, Table II): a stage holds its weights with the
statistics of batch normalisations, keeps the output of every layer of its own, but not of one that only changes
the shape, and besides what it receives; errors take as much as the outputs of one microbatch.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.machine.setting import degrees
from hypar.network.training import OPTIMIZERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.machine.setting import Setting
    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer
    from hypar.solve.edge import Costs

_SUMMED = ("weights", "gradients", "activations", "macs", "forward_s", "backward_s", "update_s")


class Span(NamedTuple):
    """One span of layers, in numbers.

    Attributes:
        weights: bytes of parameters and statistics.
        gradients: bytes of the parameters' gradients.
        activations: bytes of the outputs of all layers, one microbatch.
        macs: multiply-accumulates forward, one microbatch.
        forward_s: seconds forward, one microbatch; nothing without a machine.
        backward_s: seconds backward, gradients included.
        update_s: seconds of an update.
        received: bytes of the tensors from layers before it that it or a layer behind it reads, one microbatch.
        returned: bytes of the errors of those, of the trained part of the network.
        sent: bytes of the tensors that layers behind it read, its own and those that it has received.
        fed_back: bytes of the errors of those.
    """

    weights: int
    gradients: int
    activations: int
    macs: int
    forward_s: float
    backward_s: float
    update_s: float
    received: int
    returned: int
    sent: int
    fed_back: int


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class LayerSums:
    """A network's layers added up, one microbatch.

    Attributes:
        sums: running sums of the first fields of a ``Span``, ``[layers + 1]`` each: entry i is of the layers before i.
        forward: bytes that cross each place between layers, ``[layers + 1]``: entry i before layer i.
        backward: bytes of errors that cross it back.
    """

    sums: Mapping[str, Sequence[Any]]
    forward: Sequence[int]
    backward: Sequence[int]

    def span(self, start: int, end: int) -> Span:
        """The layers from one up to another."""
        return Span(
            **{name: values[end] - values[start] for name, values in self.sums.items()},
            received=self.forward[start],
            returned=self.backward[start],
            sent=self.forward[end],
            fed_back=self.backward[end],
        )


class Spans:
    """All spans from one of some places up to another: a field of ``Span`` is an array, made when it is asked for.

    Each is ``[places - 1, places]``, or broadcasts to it.
    """

    def __init__(self, layers: LayerSums, places: Sequence[int]) -> None:
        self._sums = {name: _at(values, places) for name, values in layers.sums.items()}
        forward, backward = _at(layers.forward, places), _at(layers.backward, places)
        self.received, self.returned = forward[:-1, None], backward[:-1, None]
        self.sent, self.fed_back = forward[None], backward[None]

    def __getattr__(self, name: str) -> Costs:
        """A field that is a sum over layers."""
        if name not in self._sums:
            raise AttributeError(name)
        total = self._sums[name]
        between: Costs = total - total[:-1, None]
        setattr(self, name, between)
        return between


def _at(values: Sequence[float], places: Sequence[int]) -> Costs:
    """Some of the values."""
    return np.array([values[place] for place in places], dtype=np.float64)


def layer_sums(graph: LayerGraph, setting: Setting | None) -> LayerSums:
    """Add up a network, its mini-batch the microbatch.

    Args:
        graph: the network.
        setting: the machine, one device of which computes each layer whole; None for none.
    """
    size, batch = graph.element_bytes, graph.batch
    times = _times(graph, setting)
    rows = [
        (
            size * (layer.num_parameters + layer.num_statistics),
            size * layer.num_parameters,
            size * batch * _elements(layer),
            layer.macs(batch),
            *times.get(layer.name, (0.0, 0.0, 0.0)),
        )
        for layer in graph.layers
    ]
    forward, backward = crossing(graph.layers)
    return LayerSums(
        sums={
            name: tuple(accumulate(column, initial=0))
            for name, column in zip(_SUMMED, zip(*rows, strict=True), strict=True)
        },
        forward=[size * batch * elements for elements in forward],
        backward=[size * batch * elements for elements in backward],
    )


def _elements(layer: Layer) -> int:
    """Elements of one sample of a layer's output, if it takes memory of its own."""
    total = 0 if layer.op.view else 1
    for size in layer.shape.values():
        total *= size
    return total


def _times(graph: LayerGraph, setting: Setting | None) -> Mapping[str, tuple[float, float, float]]:
    """Seconds forward, backward with gradient, and of the update of each layer with a weight."""
    if setting is None:
        return {}
    whole = degrees(())
    times = {
        layer.name: setting.machine.layer_time(layer.einsum, whole, graph.element_bytes)
        for layer in graph.contracted.layers
        if layer.weighted
    }
    return {
        name: (
            time.seconds["forward"],
            time.seconds["backward"] + time.seconds["gradient"],
            setting.update_seconds(time),
        )
        for name, time in times.items()
    }


def crossing(layers: Sequence[Layer]) -> tuple[list[int], list[int]]:
    """Elements of one sample that cross each place between layers, and of the errors that cross it back.

    A tensor crosses every place from the layer that makes it to the last that reads it, once, whatever its shape; its
    error comes back where a layer up to it is trained.
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


def held(span: Span | Spans, in_flight: int, optimizer: str) -> dict[str, Any]:
    """Bytes that a stage holds, item by item.

    Args:
        span: its layers, or all that may be.
        in_flight: microbatches whose activations it keeps at most.
        optimizer: one of ``OPTIMIZERS``.
    """
    return {
        "weights": span.weights,
        "gradients": span.gradients,
        "optimizer": OPTIMIZERS[optimizer] * span.gradients,
        "activations": in_flight * span.activations,
        "received": in_flight * span.received,
        "errors": span.activations,
    }
