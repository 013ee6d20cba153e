"""Transposed convolution over height and width, as up-convolutions and generators have."""

from __future__ import annotations

from hypar.network.ops.base import CountPair, Op, Shape
from hypar.network.ops.bases.windowed import Convolution
from hypar.network.windows import ShapeError, TransposedWindow


class ConvTranspose(Convolution):
    """A two-dimensional transposed convolution: the gradient of a convolution's input, with a weight of its own.

    The fields are those of PyTorch's ``ConvTranspose2d``: the output has
    ``(size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1`` elements along each spatial dim.
    """

    output_padding: CountPair = (0, 0)

    @property
    def windows(self) -> dict[str, TransposedWindow]:
        """The window along each spatial dim."""
        pairs = zip(self.kernel, self.stride, self.padding, self.dilation, self.output_padding, strict=True)
        return {
            dim: TransposedWindow(
                kernel=kernel, stride=stride, padding=padding, dilation=dilation, output_padding=added
            )
            for dim, (kernel, stride, padding, dilation, added) in zip(
                ("height", "width"), pairs, strict=True
            )
        }

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return ``out_channels`` by the outputs of the windows.

        Raises:
            ShapeError: the output padding is not below the stride or the dilation, or no output is left.
        """
        for window in self.windows.values():
            allowed = max(window.stride, window.dilation)
            if window.output_padding >= allowed:
                raise ShapeError(
                    f"found output_padding {window.output_padding} for stride {window.stride} and dilation"
                    f" {window.dilation}; allowed: below {allowed}"
                )
        return Convolution.output_shape(self, inputs)


plugin: type[Op] = ConvTranspose
