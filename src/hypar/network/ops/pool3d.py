"""Pooling over depth, height and width of a volume."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, Self

from pydantic import model_validator

from hypar.network.keeping import Keeps
from hypar.network.ops.base import Op, Shape, elements_of
from hypar.network.ops.bases.volumes import SPATIAL, CountTriple, SizeTriple, volume_input
from hypar.network.windows import ShapeError, Window

if TYPE_CHECKING:
    from collections.abc import Mapping

INDEX_BYTES = 8
"""Bytes of the index of a window's maximum, as in PyTorch."""


class Pool3d(Op):
    """Maximum or average of a sliding window, or of the whole volume with ``window: global``.

    The stride defaults to the kernel.
    """

    mode: Literal["max", "average"]
    window: Literal["sliding", "global"] = "sliding"
    kernel: SizeTriple | None = None
    stride: SizeTriple | None = None
    padding: CountTriple = (0, 0, 0)

    @model_validator(mode="after")
    def _kernel_or_global(self) -> Self:
        """Require a kernel for a sliding window, and no other field for a global one."""
        if self.window == "global" and self.model_fields_set - {"mode", "window"}:
            msg = "a global window takes no kernel, stride or padding"
            raise ValueError(msg)
        if self.window == "sliding" and self.kernel is None:
            msg = "kernel is missing; give one, or window: global"
            raise ValueError(msg)
        return self

    def windows_on(self, inputs: tuple[Shape, ...]) -> Mapping[str, Window]:
        """Return the window along each dim of a place; a global one is as large as the volume."""
        shape = volume_input(inputs)
        kernels = self.kernel or tuple(shape[dim] for dim in SPATIAL)
        fields = zip(SPATIAL, kernels, self.stride or kernels, self.padding, strict=True)
        return {
            dim: Window(kernel=kernel, stride=stride, padding=padding)
            for dim, kernel, stride, padding in fields
        }

    def contracts(self, inputs: tuple[Shape, ...]) -> frozenset[str]:
        """Return the dims that one window covers."""
        places = self.output_shape(inputs)
        return frozenset(dim for dim in SPATIAL if places[dim] == 1)

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the places of the window, or one element for each channel."""
        shape = volume_input(inputs)
        for kernel, padding in zip(self.kernel or (), self.padding, strict=False):
            if 2 * padding > kernel:
                raise ShapeError(f"found padding {padding} for kernel {kernel}; allowed: at most half of it")
        places = {dim: window.output_size(shape[dim]) for dim, window in self.windows_on(inputs).items()}
        return {"channels": shape["channels"], **places}

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:
        """Return that it keeps its input, as PyTorch does, and the indices of maxima; a global mean keeps nothing."""
        if self.mode == "average":
            return Keeps(input=self.window == "sliding")
        return Keeps(input=True, mask_bytes=INDEX_BYTES * elements_of(self.output_shape(inputs)))

    def unweighted_flop(self, inputs: tuple[Shape, ...]) -> int:
        """Return one operation for every element that a window reads."""
        taps = math.prod(window.kernel for window in self.windows_on(inputs).values())
        return elements_of(self.output_shape(inputs)) * taps


plugin: type[Op] = Pool3d
