"""Group normalisation: the sums of the channels of a group are added up where they are used."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.execution.computing.statistics import Normalised, applied

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Piece
    from hypar.execution.computing.kernel import Kernel
    from hypar.network.layer import Layer


class GroupNorm(Normalised):
    """Normalisation of every group of channels of a sample."""

    def applied(self, layer: Layer, values: Array, piece: Piece, name: str) -> Array:
        """Return the sums of the groups to which a piece's channels belong."""
        size = layer.op.together_in(layer.shape)["channels"]
        totals = values.reshape(len(values), -1, size).sum(axis=2).repeat(size, axis=1)
        return applied(layer, totals, piece, name)

    def count(self, layer: Layer) -> int:
        """Return the elements of a group of a sample."""
        image = math.prod(size for dim, size in layer.shape.items() if dim != "channels")
        return image * layer.op.together_in(layer.shape)["channels"]


plugin: Kernel = GroupNorm()
