"""Memory, arithmetic and traffic of any span of a network's layers, as numbers.

Counted as in the layer-block-wise pipeline (Mori et al., MLSP 2017, Table II): a stage holds its weights with the
statistics of batch normalisations, the outputs of its own layers, except those that only change the shape, and the
tensors that it receives; errors take as much as the outputs of one microbatch.
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
    """The numbers of one span of layers.

    Attributes:
        weights: bytes of parameters and statistics.
        gradients: bytes of the parameters' gradients.
        activations: bytes of the outputs of all layers, for one microbatch.
        macs: multiply-accumulates of the forward phase, for one microbatch.
        forward_s: seconds of the forward phase, for one microbatch; 0 without a machine.
        backward_s: seconds of the backward phase, with gradients.
        update_s: seconds of an update.
        received: bytes of the tensors from earlier layers that it or a later layer reads, for one microbatch.
        returned: bytes of the errors of the received tensors, in the trained layers of the network.
        sent: bytes of the tensors, its own or received, that later layers read.
        fed_back: bytes of the errors of the sent tensors.
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
    """Running sums over a network's layers, for one microbatch.

    Attributes:
        sums: running sums of the first fields of a ``Span``, ``[layers + 1]`` each: entry i sums the layers before i.
        forward: bytes that cross each boundary between layers, ``[layers + 1]``: entry i before layer i.
        backward: bytes of errors that cross it in the other direction.
    """

    sums: Mapping[str, Sequence[Any]]
    forward: Sequence[int]
    backward: Sequence[int]

    def span(self, start: int, end: int) -> Span:
        """Return the span of layers from ``start`` to before ``end``."""
        return Span(
            **{name: values[end] - values[start] for name, values in self.sums.items()},
            received=self.forward[start],
            returned=self.backward[start],
            sent=self.forward[end],
            fed_back=self.backward[end],
        )


class Spans:
    """All spans between two of the given places: a field of ``Span`` is an array, computed when it is read.

    Each is ``[places - 1, places]``, or broadcasts to it.
    """

    def __init__(self, layers: LayerSums, places: Sequence[int]) -> None:
        self._sums = {name: _at(values, places) for name, values in layers.sums.items()}
        forward, backward = _at(layers.forward, places), _at(layers.backward, places)
        self.received, self.returned = forward[:-1, None], backward[:-1, None]
        self.sent, self.fed_back = forward[None], backward[None]

    def __getattr__(self, name: str) -> Costs:
        """Compute a field that is a sum over layers."""
        if name not in self._sums:
            raise AttributeError(name)
        total = self._sums[name]
        between: Costs = total - total[:-1, None]
        setattr(self, name, between)
        return between


def _at(values: Sequence[float], places: Sequence[int]) -> Costs:
    return np.array([values[place] for place in places], dtype=np.float64)


def layer_sums(graph: LayerGraph, setting: Setting | None) -> LayerSums:
    """Add up a network whose mini-batch is the microbatch.

    Args:
        graph: the network.
        setting: the machine, one device of which computes each layer whole; None without a machine.
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
    """Return the elements of one sample of a layer's output; 0 if it takes no memory of its own."""
    total = 0 if layer.op.view else 1
    for size in layer.shape.values():
        total *= size
    return total


def _times(graph: LayerGraph, setting: Setting | None) -> Mapping[str, tuple[float, float, float]]:
    """Return the seconds forward, backward with gradient, and of the update, for each layer with a weight."""
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


def held(span: Span | Spans, in_flight: int, optimizer: str) -> dict[str, Any]:
    """Return the bytes that a stage holds, item by item.

    Args:
        span: its layers, or all candidate spans.
        in_flight: the largest number of microbatches whose activations it keeps.
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
