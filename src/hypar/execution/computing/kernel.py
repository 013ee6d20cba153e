"""The base of all kernels: what a device computes of a layer, forward and backward.

A kernel computes a *piece* of a layer: the index sets of its op dims that a device works on. Operands and results are
float64 arrays of the whole size of their tensor with NaN wherever a device holds nothing, so that a missing element
shows as NaN in the result. Kernels move nothing; whoever runs them adds up terms and sums over devices between the calls:

    sums       statistics of the input that are added over devices before ``forward``: ``batch_norm``, ``softmax``
    forward    output elements; of a weighted op the terms over the piece's ``in_channels``, without the bias; of an average
               pool the terms over the piece's ``input_height`` and ``input_width``, where it has them
    finish     the bias, on the added terms
    back_sums  statistics of the error that are added over devices before ``backward``
    backward   terms of the inputs' errors and of the parameters' gradients, but of a bias that ``finish`` adds
    bias       terms of the gradient of that bias

Arrays:
    activations ``[batch, channels]`` or ``[batch, channels, height, width]``; weights of convolutions ``[groups,
    in_channels, out_channels, kernel_height, kernel_width]`` with channels within a group, also of one group; weights of
    ``linear`` ``[in_channels, out_channels]``; biases, and weight and bias of ``batch_norm``, ``[channels]``; sums ``[..]``
    over the dims of the input that the op's ``statistics_over`` leaves.

Pieces:
    sorted index arrays by op dim. Weighted ops: batch, groups (if there are several), in_channels and out_channels (within a
    group), height and width of the output. Others: the dims of the output. A layer ``input`` reads the network's data
    as its one input. An average pool may have ``input_height`` and ``input_width`` besides: the input rows and columns
    whose terms this device adds up, where an image is cut below a window that covers several devices.

NaN:
    results hold NaN outside the piece. An input's error covers exactly the elements that the piece reads (``reads``):
    elements that no piece reads get no error from anybody, and whoever adds errors up takes it as zero. NaN in an
    element that the piece reads makes NaN in the result, not always only in the elements that read it.

Where ops leave a choice kernels do as PyTorch does by default: padding is zero, of a max pool less than everything, and counts
in an average's divisor, but for what hangs over the padding by ``rounding: up``; the first of equal maxima gets the error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from hypar.execution.boxes import Array, Box, Mask, Piece, mask

if TYPE_CHECKING:
    import numpy as np

    from hypar.network.layer import Layer


Inputs = tuple[Array, ...]


Parameters = Mapping[str, Array]


Sums = Mapping[str, Array]


class Gradients(NamedTuple):
    """What the backward phase of a piece gives.

    Attributes:
        inputs: terms of each input's error.
        parameters: terms of each parameter's gradient by its name.
    """

    inputs: Inputs
    parameters: dict[str, Array]


class Kernel(ABC):
    """What a device computes of a layer of one op."""

    def parameters(self, layer: Layer, random: np.random.Generator) -> dict[str, Array]:
        """Return initial values of the trained parameters, such that activations stay near 1."""
        return {}

    def output(self, layer: Layer, piece: Piece) -> Box:
        """Return the box of the output that a piece computes."""
        return tuple(piece[dim] for dim in ("batch", *layer.shape))

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of each input that a piece reads; by default that of the output."""
        return (self.output(layer, piece),)

    def reads(self, layer: Layer, batch: int, piece: Piece) -> tuple[Mask, ...]:
        """Return which elements of each input a piece reads."""
        shapes = layer.input_shapes or (layer.shape,)
        boxes = self.boxes(layer, piece)
        return tuple(mask((batch, *shape.values()), box) for shape, box in zip(shapes, boxes, strict=True))

    def sums(self, layer: Layer, inputs: Inputs, piece: Piece) -> dict[str, Array]:
        """Return the piece's terms of the statistics that ``forward`` needs of all devices."""
        return {}

    @abstractmethod
    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the piece's output, or its terms."""

    def finish(self, value: Array, parameters: Parameters) -> Array:
        """Return the output with all that follows the addition of terms, on whichever elements a device has."""
        return value

    def bias(self, error: Array, box: Box, parameters: Parameters) -> dict[str, Array]:
        """Return the terms of the gradients of what ``finish`` adds, over a box of the output's error."""
        return {}

    def back_sums(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, error: Array, piece: Piece, sums: Sums
    ) -> dict[str, Array]:
        """Return the piece's terms of the statistics that ``backward`` needs; those named as a parameter are its gradient."""
        return {}

    @abstractmethod
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
        """Return the piece's terms of the inputs' errors and of the parameters' gradients."""


def output_shape(layer: Layer, inputs: Inputs) -> tuple[int, ...]:
    """Return the whole output's shape."""
    return len(inputs[0]), *layer.shape.values()
