"""Pooling over height and width."""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import model_validator

from hypar.network.keeping import Keeps, Traffic
from hypar.network.ops.base import CountPair, Op, Shape, SizePair, elements_of, image_input
from hypar.network.ops.bases.windowed import Resampling
from hypar.network.windows import ShapeError, Window

INDEX_BYTES = 8
"""Bytes of the index of a window's maximum, as in PyTorch."""


class Pool(Resampling):
    """Maximum or average of a sliding window, or of the whole image with ``window: global``.

    The stride defaults to the kernel. ``rounding: up`` keeps a last window that extends past the edge, as Caffe does.
    """

    mode: Literal["max", "average"]
    window: Literal["sliding", "global"] = "sliding"
    kernel: SizePair | None = None
    stride: SizePair | None = None
    padding: CountPair = (0, 0)
    rounding: Literal["down", "up"] = "down"

    @model_validator(mode="after")
    def _kernel_or_global(self) -> Self:
        """Require a kernel for a sliding window, and no other field for a global one."""
        if self.window == "global" and self.model_fields_set - {"mode", "window"}:
            msg = "a global window takes no kernel, stride, padding or rounding"
            raise ValueError(msg)
        if self.window == "sliding" and self.kernel is None:
            msg = "kernel is missing; give one, or window: global"
            raise ValueError(msg)
        return self

    @property
    def averages(self) -> bool:
        """Whether an output is a mean of inputs."""
        return self.mode == "average"

    def contracts(self, inputs: tuple[Shape, ...]) -> frozenset[str]:
        """Return the dims that one window covers: both for a global pool."""
        places = self.output_shape(inputs)
        return frozenset(dim for dim in ("height", "width") if places[dim] == 1)

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the places of the window, or one element for each channel."""
        shape = image_input(inputs)
        if self.kernel is None:
            return {"channels": shape["channels"], "height": 1, "width": 1}
        for kernel, padding in zip(self.kernel, self.padding, strict=True):
            if 2 * padding > kernel:
                raise ShapeError(f"found padding {padding} for kernel {kernel}; allowed: at most half of it")
        up = self.rounding == "up"
        places = {
            dim: window.output_size(shape[dim], round_up=up)
            for dim, window in self.image_windows(shape).items()
        }
        return {"channels": shape["channels"], **places}

    def image_windows(self, shape: Shape) -> dict[str, Window]:
        """Return the window along each spatial dim; a global one is as large as the image."""
        kernels = self.kernel or (shape["height"], shape["width"])
        pairs = zip(("height", "width"), kernels, self.stride or kernels, self.padding, strict=True)
        return {
            dim: Window(kernel=kernel, stride=stride, padding=padding)
            for dim, kernel, stride, padding in pairs
        }

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:
        """Return that it keeps its input, as PyTorch does, and the indices of maxima; a global mean keeps nothing."""
        if self.averages:
            return Keeps(input=self.window == "sliding")
        return Keeps(input=True, mask_bytes=INDEX_BYTES * elements_of(self.output_shape(inputs)))

    def traffic(self, inputs: tuple[Shape, ...]) -> Traffic:
        """Return what it reads and writes: the backward phase reads indices alone of what is kept."""
        own = super().traffic(inputs)
        return own._replace(
            backward=own.backward - elements_of(image_input(inputs)) * self.keeps(inputs).input
        )

    def unweighted_flop(self, inputs: tuple[Shape, ...]) -> int:
        """Return one operation for every element that a window reads."""
        if self.kernel is None:
            return elements_of(image_input(inputs))
        return elements_of(self.output_shape(inputs)) * math.prod(self.kernel)


plugin: type[Op] = Pool
