"""What a device computes of a layer: the op's forward expression on a piece, and its errors by differentiation.

A *piece* has the indices of each loop dim that a device works on, sorted; a dim that it does not name is whole, as that of
the taps of a window. An average may have ``input_height`` and ``input_width`` besides: the input rows and columns whose terms
this device adds up, where an image is cut below a window that covers several devices.

Operands and results are float64 arrays of the whole size of their tensor, with NaN wherever a device holds nothing, so that a
missing element shows as NaN in the result. Nothing is moved here; whoever runs a piece adds up terms and sums over devices:

    sums       the piece's terms of the sums that ``forward`` needs of all devices
    forward    the output's elements; where dims are contracted the piece's terms, without the bias
    finish     the bias, on the added terms
    back_sums  the piece's terms of the sums that ``backward`` needs; those named as a parameter are its gradient
    backward   terms of the inputs' errors and of the contracted weight's gradient
    bias       terms of the gradient of that bias

An input's error covers exactly the elements that the piece reads; elements that no piece reads get no error from anybody.

Where ops leave a choice they do as PyTorch does by default: padding is zero, of a max pool less than everything, and counts
in an average's divisor, but for what hangs over the padding by ``rounding: up``; the first of equal maxima gets the error.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.ops.nest import operand_name
from hypar.ops.run import Run, mask, put, take
from hypar.ops.tape import differentiate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.ops.base import Op
    from hypar.ops.nest import Nest
    from hypar.ops.run import Arrays, Box, Mask, Piece
    from hypar.ops.tape import Array


class Gradients(NamedTuple):
    """What the backward phase of a piece gives: terms of each input's error, and of gradients by their parameter's name."""

    inputs: tuple[Array, ...]
    parameters: dict[str, Array]


class Kernel(NamedTuple):
    """An op on a mini-batch, as devices compute it."""

    op: Op
    nest: Nest

    def parameters(self, random: np.random.Generator) -> dict[str, Array]:
        """Return first values of the trained tensors, such that activations stay near 1."""
        terms = max(1.0, self.nest.macs / math.prod(self.nest.result.shape))
        scales = {"weight": 1 / math.sqrt(terms)} if self.nest.weight else {}
        return {
            name: random.normal(own.start, scales.get(name, 0.1), own.shape)
            for name, own in self.nest.trained.items()
        }

    def whole(self) -> Piece:
        """Return the piece that is the whole layer."""
        return {
            dim: np.arange(size) for dim, size in self.nest.sizes.items() if not dim.startswith("kernel_")
        }

    def output(self, piece: Piece) -> Box:
        """Return the box of the output that a piece computes."""
        return Run(self.nest, piece).box(self.nest.result)

    def reads(self, piece: Piece) -> tuple[Mask, ...]:
        """Return which elements of each input a piece reads."""
        run = Run(self.nest, piece)
        if self.nest.view:
            return (mask(self.nest.result.shape, self.output(piece)).reshape(self.nest.inputs[0].shape),)
        return tuple(mask(own.shape, run.box(own)) for own in self.nest.inputs)

    def sums(self, inputs: Sequence[Array], piece: Piece) -> dict[str, Array]:
        """Return the piece's terms of the sums that ``forward`` needs."""
        if not any(not own.backward for own in self.nest.sums.values()):
            return {}
        unknown = {name: np.full(own.shape, np.nan) for name, own in self.nest.trained.items()}
        run = Run(self.nest, piece, inputs, unknown, sums=None)
        self.op.value(run)
        return run.terms

    def forward(self, inputs: Sequence[Array], parameters: Arrays, piece: Piece, sums: Arrays) -> Array:
        """Return the piece's output, or its terms."""
        run = Run(self.nest, piece, inputs, parameters, sums)
        return run.put(self.nest.result, self.op.value(run))

    def finish(self, value: Array, parameters: Arrays) -> Array:
        """Return added terms with the bias, on whichever elements a device has."""
        if not self._biased:
            return value
        shape = [size if at in self._biased else 1 for at, size in enumerate(value.shape)]
        return value + parameters["bias"].reshape(shape)

    def bias(self, error: Array, box: Box, parameters: Arrays) -> dict[str, Array]:
        """Return the terms of the bias's gradient over a box of the output's error."""
        if not self._biased:
            return {}
        summed = take(error, box).sum(tuple(at for at in range(error.ndim) if at not in self._biased))
        return {"bias": put(parameters["bias"].shape, tuple(box[at] for at in self._biased), summed)}

    @property
    def _biased(self) -> tuple[int, ...]:
        """The axes of the output that a bias behind a contraction has."""
        bias = self.nest.trained.get("bias") if self.nest.weight else None
        return tuple(map([*self.nest.result.axes].index, bias.axes)) if bias else ()

    def back_sums(
        self, inputs: Sequence[Array], parameters: Arrays, error: Array, piece: Piece, sums: Arrays
    ) -> dict[str, Array]:
        """Return the piece's terms of the sums that ``backward`` needs."""
        if not any(own.backward for own in self.nest.sums.values()):
            return {}
        return self._back(inputs, parameters, error, piece, sums).terms

    def backward(
        self,
        inputs: Sequence[Array],
        parameters: Arrays,
        error: Array,
        piece: Piece,
        sums: Arrays,
        back_sums: Arrays,
    ) -> Gradients:
        """Return the piece's terms of the inputs' errors and of the gradients, whole ones where ``back_sums`` has their sums."""
        run = self._back(inputs, parameters, error, piece, sums, back_sums)
        found = tuple(run.gradient(operand_name(number)) for number in range(len(inputs)))
        return Gradients(
            found, {name: run.gradient(name) for name in self.nest.trained if name in run.leaves}
        )

    def _back(
        self,
        inputs: Sequence[Array],
        parameters: Arrays,
        error: Array,
        piece: Piece,
        sums: Arrays,
        back_sums: Arrays | None = None,
    ) -> Run:
        """Return a run whose errors are known."""
        run = Run(self.nest, piece, inputs, parameters, sums, back_sums)
        made = run.made(self.op.value(run))
        run.terms.clear()
        differentiate(made, take(error, run.box(self.nest.result)))
        return run
