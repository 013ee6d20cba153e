"""Enlargement of an image by interpolation, without a weight."""

from __future__ import annotations

from typing import ClassVar, Literal

from hypar.network.ops.base import Op, Shape, SizePair, elements_of
from hypar.network.ops.bases.windowed import Resampling
from hypar.network.windows import TransposedWindow


class Upsample(Resampling):
    """An image ``scale`` times as high and wide: each element repeated, or bilinear between the nearest four.

    Bilinear is PyTorch's with ``align_corners=False``: output o lies at ``(o + 1/2) / scale - 1/2`` of the input, so that
    an input reaches the ``2 scale`` outputs around it, less the one in which an odd scale meets the next input exactly.
    """

    flop_per_output: ClassVar[dict[str, int]] = {"nearest": 0, "bilinear": 2 * 4 - 1}
    mode: Literal["nearest", "bilinear"]
    scale: SizePair

    def image_windows(self, shape: Shape) -> dict[str, TransposedWindow]:  # noqa: ARG002
        """Return the transposed window along each spatial dim."""
        return {dim: self._window(scale) for dim, scale in zip(("height", "width"), self.scale, strict=True)}

    def _window(self, scale: int) -> TransposedWindow:
        if self.mode == "nearest":
            return TransposedWindow(kernel=scale, stride=scale)
        return TransposedWindow(kernel=2 * scale - scale % 2, stride=scale, padding=scale // 2)

    def unweighted_flop(self, inputs: tuple[Shape, ...]) -> int:
        """Return four products and three sums for each output of a bilinear interpolation; repeating takes none."""
        return elements_of(self.output_shape(inputs)) * self.flop_per_output[self.mode]


plugin: type[Op] = Upsample
