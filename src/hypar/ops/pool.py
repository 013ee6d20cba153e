"""Pooling over height and width."""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import model_validator

from hypar.ops.base import CountPair, Op, Shape, ShapeError, SizePair, Window, elements_of, image_input


class Pool(Op):
    """Maximum or average of a sliding window, or of the whole image with ``window: global``.

    The stride is the kernel unless it is given. ``rounding: up`` keeps a last window that hangs over the
    edge, as Caffe does.
    """

    mode: Literal["max", "average"]
    window: Literal["sliding", "global"] = "sliding"
    kernel: SizePair | None = None
    stride: SizePair | None = None
    padding: CountPair = (0, 0)
    rounding: Literal["down", "up"] = "down"

    @model_validator(mode="after")
    def _kernel_or_global(self) -> Self:
        """A sliding window has a kernel, a global one has nothing else."""
        if self.window == "global" and self.model_fields_set - {"mode", "window"}:
            msg = "a global window takes no kernel, stride, padding or rounding"
            raise ValueError(msg)
        if self.window == "sliding" and self.kernel is None:
            msg = "kernel is missing; give one, or window: global"
            raise ValueError(msg)
        return self

    def contracts(self, inputs: tuple[Shape, ...]) -> frozenset[str]:
        """The dims over which one window reaches: both of a global pool."""
        places = self.output_shape(inputs)
        return frozenset(dim for dim in ("height", "width") if places[dim] == 1)

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """The places of the window, or one element a channel."""
        shape = image_input(inputs)
        if self.kernel is None:
            return {"channels": shape["channels"], "height": 1, "width": 1}
        places = {}
        strides = self.stride or self.kernel
        for dim, kernel, stride, padding in zip(
            ("height", "width"), self.kernel, strides, self.padding, strict=True
        ):
            if 2 * padding > kernel:
                raise ShapeError(f"found padding {padding} for kernel {kernel}; allowed: at most half of it")
            window = Window(kernel=kernel, stride=stride, padding=padding)
            places[dim] = window.output_size(shape[dim], round_up=self.rounding == "up")
        return {"channels": shape["channels"], **places}

    def unweighted_flop(self, inputs: tuple[Shape, ...]) -> int:
        """One operation for every element that a window reads."""
        if self.kernel is None:
            return elements_of(image_input(inputs))
        return elements_of(self.output_shape(inputs)) * math.prod(self.kernel)


plugin: type[Op] = Pool
