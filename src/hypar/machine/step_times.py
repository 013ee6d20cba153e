"""The measured times of a data-parallel step, layer by layer, and when the gradients of each layer are ready."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import ProfileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

STEP_TABLES = (".yaml", ".yml", ".csv")
"""Endings of the files of tables of measured times of steps."""


def is_step_table(file: object) -> bool:
    """Return whether something is a file of such a table, by its ending."""
    return isinstance(file, str | Path) and Path(file).suffix in STEP_TABLES


class LayerTimes(NamedTuple):
    """The times of a layer on a device, and of the exchange of its gradients.

    Attributes:
        name: the layer's name.
        forward_s: seconds of its forward phase.
        backward_s: seconds of its errors and gradients.
        exchange_s: seconds of the exchange of its gradients; None if it was not measured.
    """

    name: str
    forward_s: float
    backward_s: float
    exchange_s: float | None


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """The times of a training step, layer by layer.

    Attributes:
        layers: the layers from the first to the last; the backward phase takes them from the last to the first.
        sync_s: additional seconds of synchronisation for every chunk.
        source: the name of the table that they are from.
    """

    layers: tuple[LayerTimes, ...]
    sync_s: float
    source: str = ""

    @property
    def digest(self) -> str:
        """Return a hash of the times."""
        return hashlib.sha256(repr((self.layers, self.sync_s)).encode()).hexdigest()

    @cached_property
    def _by_name(self) -> dict[str, LayerTimes]:
        return {layer.name: layer for layer in self.layers}

    def phases(self, layer: str, cut: Sequence[str]) -> dict[str, float]:
        """Return the seconds of a layer's phases; the errors and the gradients were measured together.

        Args:
            layer: its name.
            cut: the dims that are cut.

        Raises:
            ProfileError: the layer was not measured, or is not cut in the batch alone.
        """
        own = self._by_name.get(layer)
        if own is None:
            allowed = "the layers of the network that was measured"
            raise ProfileError("measured times", f"no layer {layer!r}", allowed)
        if {*cut} - {"batch"}:
            found = f"{layer!r} is cut in {', '.join(cut)}"
            raise ProfileError("measured times", found, "data parallelism, in which they were measured")
        return {"forward": own.forward_s, "backward": own.backward_s, "gradient": 0.0}

    @property
    def exchanges(self) -> bool:
        """Return whether the exchange of gradients has times, too."""
        return any(layer.exchange_s is not None for layer in self.layers)

    def chunk_s(self, layers: Iterable[str]) -> float:
        """Return the seconds in which layers exchange their gradients together, synchronisation included."""
        return math.fsum((self.sync_s, *(self._by_name[name].exchange_s or 0.0 for name in layers)))

    @cached_property
    def ready(self) -> tuple[float, ...]:
        """Return the seconds of the backward phase until its first n layers are done: ``[layers + 1]``."""
        return tuple(accumulate((layer.backward_s for layer in reversed(self.layers)), initial=0.0))

    @cached_property
    def sent(self) -> tuple[float, ...]:
        """Return the seconds in which its first n layers exchange their gradients one by one: ``[layers + 1]``."""
        return tuple(accumulate((layer.exchange_s or 0.0 for layer in reversed(self.layers)), initial=0.0))
