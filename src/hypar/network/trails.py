"""The trails of a network: each cut layer with the ops behind it that are not cut, as memory sees them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.network.einsum import Behind
from hypar.network.keeping import Trailing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.layer import Layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Trails:
    """The trails of a network's layers.

    Attributes:
        places: for each layer the name of the cut layer in whose trail its output is, with the number of that tensor; None
            instead of a name for tensors between the network's input and its first cut layers.
        cut: the trail of each cut layer.
        fed: the network's inputs and the ops behind them, by the number of the tensor that they write.
    """

    places: Mapping[str, tuple[str | None, int]]
    cut: Mapping[str, list[Trailing]]
    fed: Mapping[int, Trailing]

    def number_of(self, name: str) -> int:
        """Return the number of a layer's output in its trail; a view has the number of its input."""
        return self.places[name][1]

    def behind(self, layer: Layer) -> tuple[Trailing, ...]:
        """Return the trail of a cut layer."""
        return tuple(self.cut[layer.name])

    def before(self, layer: Layer) -> tuple[Trailing, ...]:
        """Return the ops from the network's inputs to a cut layer, in their order."""
        found: dict[int, Trailing] = {}
        for name in layer.inputs:
            owner, number = self.places[name]
            at: int | None = number if owner is None else None
            while at is not None:
                found[at] = self.fed[at]
                at = self.fed[at].source
        return tuple(found[number] for number in sorted(found))


def trails_of(layers: Sequence[Layer], cut: Mapping[str, int], batch: int) -> Trails:
    """Return the trails of a network.

    Args:
        layers: all layers, in topological order.
        cut: the layers that are cut.
        batch: samples in a mini-batch.
    """
    places: dict[str, tuple[str | None, int]] = {}
    trails: dict[str, list[Trailing]] = {}
    fed: dict[int, Trailing] = {}
    for number, layer in enumerate(layers):
        if layer.name in cut:
            trails[layer.name] = [_trailing(layer, batch, None, 0, frozenset())]
            places[layer.name] = layer.name, 0
        elif not layer.inputs:
            fed[number] = _trailing(layer, batch, None, number, frozenset())
            places[layer.name] = None, number
        elif layer.op.view:
            places[layer.name] = places[layer.inputs[0]]
        else:
            owner, source = places[layer.inputs[0]]
            before = fed[source] if owner is None else trails[owner][source]
            contracted = before.contracted | layer.op.contracts(layer.input_shapes)
            target = number if owner is None else len(trails[owner])
            made = _trailing(layer, batch, source, target, contracted)
            if owner is None:
                fed[number] = made
            else:
                trails[owner].append(made)
            places[layer.name] = owner, target
    readers = Counter(places[name] for layer in layers if not layer.op.view for name in layer.inputs)
    counted = {
        owner: [op._replace(readers=readers[owner, op.target]) for op in own] for owner, own in trails.items()
    }
    return Trails(places=places, cut=counted, fed=fed)


def _trailing(
    layer: Layer, batch: int, source: int | None, target: int, contracted: frozenset[str]
) -> Trailing:
    """Return a layer as memory sees it, for a mini-batch."""
    kept = layer.op.keeps(layer.input_shapes)
    return Trailing(
        source=source,
        target=target,
        elements=batch * math.prod(layer.shape.values()),
        contracted=contracted,
        passes=layer.op.passes,
        keeps_input=kept.input,
        keeps_output=kept.output,
        more_elements=batch * kept.elements,
        more_bytes=batch * kept.mask_bytes,
        statistics=kept.statistics,
        traffic=layer.op.traffic(layer.input_shapes).times(batch),
    )


def traffic_behind(trail: Sequence[Trailing]) -> tuple[Behind, ...]:
    """Return the traffic of a cut layer besides its phases and of the ops behind it, per element of its output.

    A tensor that several ops read has as many errors, which are read and written as one sum.
    """
    found, whole = [], trail[0].elements
    for op in trail:
        before = frozenset() if op.source is None else trail[op.source].contracted
        added = (op.readers + 1) * op.elements if op.readers > 1 else 0
        own = op.traffic
        if any(own) or added:
            found.append(
                Behind(
                    contracted=before,
                    forward=own.forward / whole,
                    backward=(own.backward + added) / whole,
                    mask_bytes=own.mask_bytes / whole,
                    flop=own.flop / whole,
                )
            )
    return tuple(found)
