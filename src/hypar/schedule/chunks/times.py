"""What a step takes layer by layer, and when the gradients of each layer are ready."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTimes:
    """What a layer takes on a device, and its gradients on their way.

    Attributes:
        name: the layer's name.
        forward_s: its forward phase.
        backward_s: its errors and gradients.
        exchange_s: each part of the exchange of its gradients, in order, as ``copy out``.
    """

    name: str
    forward_s: float
    backward_s: float
    exchange_s: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, repr=False)
class StepTimes:
    """What a training step takes, layer by layer.

    Attributes:
        layers: from the first to the last; the backward phase takes them from the last to the first.
        sync_s: the synchronisation that every chunk costs besides.
    """

    layers: tuple[LayerTimes, ...]
    sync_s: float

    @property
    def backward_order(self) -> tuple[LayerTimes, ...]:
        """The layers as the backward phase takes them."""
        return self.layers[::-1]

    @property
    def forward_s(self) -> float:
        """The whole forward phase."""
        return math.fsum(layer.forward_s for layer in self.layers)

    @cached_property
    def ready(self) -> tuple[float, ...]:
        """Seconds of the backward phase until so many layers are done: ``[layers + 1]``."""
        return tuple(accumulate((layer.backward_s for layer in self.backward_order), initial=0.0))

    @cached_property
    def sent(self) -> tuple[float, ...]:
        """Seconds that the gradients of so many layers take, one after another: ``[layers + 1]``."""
        each = (sum(layer.exchange_s.values()) for layer in self.backward_order)
        return tuple(accumulate(each, initial=0.0))

    def __repr__(self) -> str:
        """Size, short enough for a prompt."""
        return f"<StepTimes of {len(self.layers)} layers, backward {self.ready[-1]:.6g} s>"
