"""Product of tensors of one shape."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel, output_shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypar.execution.boxes import Array, Box, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class Multiply(Kernel):
    """The inputs multiplied; each gets the error times the others."""

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the output for every input."""
        return (self.output(layer, piece),) * len(layer.inputs)

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the product."""
        box = self.output(layer, piece)
        return put(output_shape(layer, inputs), box, _product(take(whole, box) for whole in inputs))

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
        """Return the error times the other inputs for every input."""
        box = self.output(layer, piece)
        local = [take(whole, box) for whole in inputs]
        own = take(error, box)
        return Gradients(
            tuple(
                put(error.shape, box, _product([own, *local[:number], *local[number + 1 :]]))
                for number in range(len(inputs))
            ),
            {},
        )


def _product(factors: Iterable[Array]) -> Array:
    """Return the product of arrays."""
    return reduce(np.multiply, factors)


plugin: Kernel = Multiply()
