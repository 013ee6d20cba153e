"""Patches of an image, each as a position of a sequence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from hypar.network.dims import MADE
from hypar.network.einsum import Einsum
from hypar.network.named import DimName, Sized
from hypar.network.ops.base import Contraction, Op, Shape, SizePair, image_input
from hypar.network.windows import ShapeError, SharedWindow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.windows import Window


class Patch(Contraction):
    """A convolution of one filter for each patch of an image, whose places are the positions of a sequence, row by row.

    Patches have the size ``kernel`` and lie side by side. ``over`` names the dim of the positions, ``out`` those that are
    made of a patch.

    Source: Dosovitskiy and others, An Image is Worth 16x16 Words (2021), section 3.1.
    """

    sized: ClassVar[tuple[str, ...]] = ("out",)
    kernel: SizePair
    out: Sized
    over: DimName = "sequence"
    bias: bool = True

    @property
    def names_dims(self) -> bool:
        """Return that its dims are named."""
        return True

    def across(self, shape: Shape) -> int:
        """Return the patches beside each other."""
        return shape["width"] // self.kernel[1]

    def windows_on(self, inputs: tuple[Shape, ...]) -> Mapping[str, Window]:
        """Return the window of rows that a position reads."""
        rows = self.kernel[0]
        return {"height": SharedWindow(kernel=rows, stride=rows, outputs=self.across(image_input(inputs)))}

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return a position for each patch, with the dims of ``out``."""
        shape = image_input(inputs)
        for dim, size in zip(("height", "width"), self.kernel, strict=True):
            if shape[dim] % size:
                raise ShapeError(f"found patches of {size} along {dim} of {shape[dim]}; allowed: a divisor")
        if self.over in dict(self.out):
            raise ShapeError(f"found {self.over} in over and in out; allowed: each dim once")
        return {self.over: shape["height"] // self.kernel[0] * self.across(shape), **dict(self.out)}

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:
        """Return the elements of the filters and the biases."""
        return sum(self.parameters(inputs).values())

    def parameters(self, inputs: tuple[Shape, ...]) -> dict[str, int]:
        """Return the elements of the filters and the biases."""
        made = math.prod(size for _, size in self.out)
        bias = {"bias": made} if self.bias else {}
        return {"weight": made * image_input(inputs)["channels"] * math.prod(self.kernel), **bias}

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:
        """Return ``F_out[n,s,o] = F_in[n,i,h,w] . W[i,r,c,o]`` for the h and w of the patch s; its rows divide with s."""
        shape = image_input(inputs)
        made = {f"{MADE}{dim}": dim for dim, _ in self.out}
        return Einsum(
            sizes={
                "batch": batch,
                self.over: output[self.over],
                "in_channels": shape["channels"],
                "kernel_height": self.kernel[0],
                "kernel_width": self.kernel[1],
                **{dim: output[own] for dim, own in made.items()},
            },
            input={"batch": "batch", "in_channels": "channels", self.over: "height"},
            weight=("in_channels", "kernel_height", "kernel_width", *made),
            output={"batch": "batch", self.over: self.over, **made},
            input_elements=batch * math.prod(shape.values()),
            zeros=self.zeros,
        )


plugin: type[Op] = Patch
