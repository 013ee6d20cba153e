"""Convolution over depth, height and width of a volume, as of video or of a scan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.network.dims import KERNEL
from hypar.network.einsum import Einsum
from hypar.network.ops.base import Contraction, Op, Shape, Size, elements_of, one_input
from hypar.network.ops.bases.volumes import SPATIAL, CountTriple, SizeTriple, volume_input
from hypar.network.ops.bases.windowed import grouped, require_groups
from hypar.network.windows import Window

if TYPE_CHECKING:
    from collections.abc import Mapping


class Conv3d(Contraction):
    """A convolution of filters that slide over a volume; a plan divides its batch and its channels."""

    out_channels: Size
    kernel: SizeTriple
    stride: SizeTriple = (1, 1, 1)
    padding: CountTriple = (0, 0, 0)
    dilation: SizeTriple = (1, 1, 1)
    groups: Size = 1
    bias: bool = True

    @property
    def names_dims(self) -> bool:
        """Return that its dims are more than those of an image."""
        return True

    @property
    def windows(self) -> Mapping[str, Window]:
        """The window along each spatial dim."""
        fields = zip(self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return {
            dim: Window(kernel=kernel, stride=stride, padding=padding, dilation=dilation)
            for dim, (kernel, stride, padding, dilation) in zip(SPATIAL, fields, strict=True)
        }

    def windows_on(self, inputs: tuple[Shape, ...]) -> Mapping[str, Window]:  # noqa: ARG002
        """Return the window along each spatial dim."""
        return self.windows

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return ``out_channels`` by the outputs of the windows."""
        shape = volume_input(inputs)
        require_groups(shape["channels"], self.out_channels, self.groups)
        spatial = {dim: window.output_size(shape[dim]) for dim, window in self.windows.items()}
        return {"channels": self.out_channels, **spatial}

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:
        """Return the elements of the filters and the biases."""
        return sum(self.parameters(inputs).values())

    def parameters(self, inputs: tuple[Shape, ...]) -> dict[str, int]:
        """Return the elements of the filters and the biases."""
        weight = self.out_channels * (one_input(inputs)["channels"] // self.groups) * math.prod(self.kernel)
        return {"weight": weight, **({"bias": self.out_channels} if self.bias else {})}

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:
        """Return ``F_out[n,g,o,d,h,w] = F_in[n,g,i,d',h',w'] . W[g,i,o,q,r,s]`` for the d', h' and w' that the windows read."""
        shape = one_input(inputs)
        kernel = {f"{KERNEL}{dim}": size for dim, size in zip(SPATIAL, self.kernel, strict=True)}
        spatial = {dim: dim for dim in SPATIAL}
        sizes, of_groups, inner = grouped(self.groups)
        return Einsum(
            sizes={
                "batch": batch,
                **sizes,
                "in_channels": shape["channels"] // self.groups,
                "out_channels": self.out_channels // self.groups,
                **{dim: output[dim] for dim in SPATIAL},
                **kernel,
            },
            input={"batch": "batch", **of_groups, "in_channels": inner, **spatial},
            weight=(*sizes, "in_channels", "out_channels", *kernel),
            output={"batch": "batch", **of_groups, "out_channels": inner, **spatial},
            input_elements=batch * elements_of(shape),
            zeros=self.zeros,
            whole=frozenset(SPATIAL),
        )


plugin: type[Op] = Conv3d
