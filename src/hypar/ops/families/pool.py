"""Ops that read windows of an image or a volume without a weight, channel by channel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from hypar.ops.base import VOLUME, Count, Facts, Op, Shape, Size, Sliding, fits
from hypar.ops.dims import KERNEL
from hypar.ops.nest import Saved
from hypar.ops.tape import Var, product

if TYPE_CHECKING:
    from hypar.ops.run import Run
    from hypar.ops.windows import Window

INDEX_BYTES = 8
"""Bytes of the index of a window's maximum, as in PyTorch."""


class Pool(Sliding):
    """Maximum or average of a sliding window, or of the whole image with ``window: global``.

    The stride defaults to the kernel. ``rounding: up`` keeps a last window that extends past the edge, as Caffe does.
    """

    node: ClassVar[Literal["", "pool"]] = "pool"
    mode: Literal["max", "average"]
    window: Literal["sliding", "global"] = "sliding"
    kernel: tuple[Size, ...] | None = None
    stride: tuple[Size, ...] | None = None
    padding: tuple[Count, ...] = (0, 0)
    rounding: Literal["down", "up"] = "down"

    def _refusals(self) -> dict[str, bool]:
        own, alone = {"mode", "window"}, self.window == "global"
        *others, last = (name for name in type(self).model_fields if name not in own)
        return {
            f"a global window takes no {', '.join(others)} or {last}": alone and self.model_fields_set > own,
            "kernel is missing; give one, or window: global": not alone and self.kernel is None,
        }

    def windows(self, shape: Shape) -> dict[str, Window]:
        """Return the window along each dim of a place; a global one is as large as the input."""
        kernels = self.kernel or tuple(shape[dim] for dim in self.form[1:])
        for kernel, padding in zip(kernels, self.padding, strict=True):
            fits(2 * padding <= kernel, f"padding {padding} for kernel {kernel}", "at most half of it")
        return self.along(kernel=kernels, stride=self.stride or kernels, padding=self.padding)

    def _facts(self, shape: Shape) -> Facts:
        """Return that it keeps its input, as PyTorch does, and the indices of maxima; a global mean keeps nothing.

        It takes one operation for every element that a window reads. The backward phase of a pool of images reads indices alone
        of what is kept.
        """
        kept = self.mode == "max" or self.window == "sliding"
        windows, up = self.windows(shape), self.rounding == "up"
        made = {dim: own.output_size(shape[dim], round_up=up) for dim, own in windows.items()}
        return {
            "windows": windows,
            "made": {**shape, **made},
            "reduce": "mean" if self.mode == "average" else "max",
            "saved": Saved(input=kept),
            "mask": INDEX_BYTES * (self.mode == "max"),
            "operations": math.prod(own.kernel for own in windows.values()),
            "more": (0, -math.prod(shape.values()) * (kept and "depth" not in shape)),
        }

    def _value(self, run: Run, read: Var) -> Var:
        """Return the largest element of each window; or its mean, padding counted as zeros but for what hangs over it."""
        own = run.nest.inputs[0]
        taps = [f"{KERNEL}{dim}" for dim in own.windows]
        if self.mode == "max":
            return read.max(taps)
        found = read.sum(taps)
        for dim, window in own.windows.items():
            first = run.index(dim) * window.stride - window.padding
            counted = np.minimum(first + window.kernel, own.axes[dim].size + window.padding) - first
            found = found * Var((dim,), 1 / counted)
        return found


class Pool3d(Pool):
    """A pool of a volume, which rounds down."""

    node = ""
    form = VOLUME
    padding: tuple[Count, ...] = (0, 0, 0)
    rounding: ClassVar[str] = "down"  # type: ignore[misc]


class Upsample(Sliding):
    """An image ``scale`` times as high and wide: each element repeated, or bilinear between the nearest four.

    Bilinear is PyTorch's with ``align_corners=False``: output o lies at ``(o + 1/2) / scale - 1/2`` of the input, so that
    an input reaches the ``2 scale`` outputs around it, less the one in which an odd scale meets the next input exactly.
    """

    node = "pool"
    transposed = True
    mode: Literal["nearest", "bilinear"]
    scale: tuple[Size, ...]

    def windows(self, shape: Shape) -> dict[str, Window]:  # noqa: ARG002
        """Return the transposed window along each spatial dim."""
        wide = self.mode == "bilinear"
        kernels = [size + wide * (size - size % 2) for size in self.scale]
        paddings = [wide * (size // 2) for size in self.scale]
        return self.along(kernel=kernels, stride=self.scale, padding=paddings)

    def _facts(self, shape: Shape) -> Facts:  # noqa: ARG002
        """Return four products and three sums for each output of a bilinear interpolation; repeating takes none."""
        return {"operations": (2 * 4 - 1) * (self.mode == "bilinear")}

    def _value(self, run: Run, *operands: Var) -> Var:
        """Return the elements weighed by one less the distance in input elements; the weights of an output add up to one."""
        for dim, window in run.nest.inputs[0].windows.items():
            # The opposite window of an input is centred on it, and so falls off to both sides from its middle tap.
            own, kernel = run.nest.inputs[0].axes[dim], window.kernel
            distance = np.abs(np.arange(kernel) - (kernel - 1) / 2) / window.stride
            weights = np.where(window.taps(own.size, run.index(dim)) < 0, 0.0, 1 - distance)
            operands += (Var(own.dims, weights / weights.sum(axis=1, keepdims=True)),)
        return product(operands, run.nest.result.dims)


class Crop(Sliding):
    """The image without ``margin`` rows at top and bottom, and without as many columns at left and right."""

    node = "pool"
    margin: tuple[Count, ...]

    def windows(self, shape: Shape) -> dict[str, Window]:
        """Return a window of one element, padded by less than nothing, along each spatial dim."""
        for dim, margin in zip(self.form[1:], self.margin, strict=True):
            found = f"margin {margin} at both ends of {dim} {shape[dim]}"
            fits(2 * margin < shape[dim], found, "less than half of it")
        return self.along(kernel=[1] * len(self.margin), padding=[-margin for margin in self.margin])


plugins: dict[str, type[Op]] = {"crop": Crop, "pool": Pool, "pool3d": Pool3d, "upsample": Upsample}
