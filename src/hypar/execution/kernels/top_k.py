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
    """A softmax over the experts to which each position goes; the first dim besides theirs is that of the positions."""

    def exponentials(self, layer: Layer, local: Array, piece: Piece) -> Array:
        """Return the exponentials of the scores of chosen experts, and 0 for the others."""
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
        return np.exp(local) * np.expand_dims(found, further)


plugin: Kernel = TopK()
