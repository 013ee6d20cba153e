"""Crop of an image to its centre."""

from __future__ import annotations

from hypar.network.ops.base import CountPair, Op, Shape, image_input
from hypar.network.ops.bases.windowed import Resampling
from hypar.network.windows import ShapeError, Window


class Crop(Resampling):
    """The image without ``margin`` rows at top and bottom, and without as many columns at left and right."""

    margin: CountPair

    def image_windows(self, shape: Shape) -> dict[str, Window]:  # noqa: ARG002
        """Return a window of one element, padded by less than nothing, along each spatial dim."""
        dims = zip(("height", "width"), self.margin, strict=True)
        return {dim: Window(kernel=1, padding=-margin) for dim, margin in dims}

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the channels by what is left.

        Raises:
            ShapeError: nothing is left.
        """
        shape = image_input(inputs)
        for dim, margin in zip(("height", "width"), self.margin, strict=True):
            if 2 * margin >= shape[dim]:
                raise ShapeError(
                    f"found margin {margin} at both ends of {dim} {shape[dim]}; allowed: less than half of it"
                )
        return Resampling.output_shape(self, inputs)


plugin: type[Op] = Crop
