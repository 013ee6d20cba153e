"""Gates of a mixture of experts, by a fixed routing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution.computing.routing import Routing
from hypar.execution.computing.statistics import Shares

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Piece
    from hypar.execution.computing.kernel import Kernel
    from hypar.network.layer import Layer


class TopK(Shares):
    """Shares of the experts to which each position goes; the first dim besides theirs is that of the positions."""

    def slopes(self, layer: Layer, local: Array) -> Array | float:
        """Return the derivative of the function's logarithm: 1 of an exponential, ``1 - sigmoid(x)`` of a sigmoid."""
        op: Any = layer.op
        return 1 / (1 + np.exp(local)) if op.function == "sigmoid" else super().slopes(layer, local)

    def exponentials(self, layer: Layer, local: Array, piece: Piece) -> Array:
        """Return the function of the scores of chosen experts, and 0 for the others."""
        op: Any = layer.op
        (experts,) = op.over
        axes = ("batch", *layer.shape)
        positions = next(dim for dim in layer.shape if dim != experts)
        chosen = Routing(layer.shape[experts], op.count).chosen(
            piece["batch"], piece[positions], piece[experts]
        )
        order = [
            ("batch", positions, experts).index(dim) for dim in axes if dim in ("batch", positions, experts)
        ]
        found = chosen.transpose(order)
        further = tuple(axis for axis, dim in enumerate(axes) if dim not in ("batch", positions, experts))
        value = 1 / (1 + np.exp(-local)) if op.function == "sigmoid" else np.exp(local)
        return value * np.expand_dims(found, further)


plugin: Kernel = TopK()
