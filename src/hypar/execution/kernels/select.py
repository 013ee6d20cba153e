"""One position of a sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel, output_shape

if TYPE_CHECKING:
    from hypar.execution.boxes import Array, Box, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class Select(Kernel):
    """A copy of the position; its error is that of the copy."""

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the position."""
        op: Any = layer.op
        here = np.array([op.index])
        return (tuple(here if dim == op.over else piece[dim] for dim in ("batch", *layer.shape)),)

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the position."""
        (box,) = self.boxes(layer, piece)
        return put(output_shape(layer, inputs), self.output(layer, piece), take(inputs[0], box))

    def backward(
        self,
        layer: Layer,
        inputs: Inputs,
        parameters: Parameters,
        error: Array,
        piece: Piece,
        sums: Sums,
        back_sums: Sums,
    ) -> Gradients:
        """Return the error of the position."""
        (box,) = self.boxes(layer, piece)
        return Gradients((put(inputs[0].shape, box, take(error, self.output(layer, piece))),), {})


plugin: Kernel = Select()
