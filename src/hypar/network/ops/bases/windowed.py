"""Ops that read an image in windows: convolutions, and those without a weight that resample it."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from hypar.network.einsum import Einsum
from hypar.network.ops.base import Contraction, CountPair, Op, Shape, Size, SizePair, elements_of, image_input
from hypar.network.windows import ShapeError, Window

IN_GROUP = "channels_in_group"
"""The name in tensors of the channels of each group."""

if TYPE_CHECKING:
    from collections.abc import Mapping


def require_groups(read: int, made: int, groups: int) -> None:
    """Check that groups of channels are equal.

    Raises:
        ShapeError: they are not.
    """
    for name, channels in (("in", read), ("out", made)):
        if channels % groups:
            raise ShapeError(
                f"found {channels} {name}_channels in {groups} groups; allowed: a multiple of {groups}"
            )


def grouped(groups: int) -> tuple[dict[str, int], dict[str, str], str]:
    """Return the size of the dim of groups and its name in tensors, if there are several, and the name of the channels."""
    if groups == 1:
        return {}, {}, "channels"
    # Channels cut inside every group are not the consecutive channels that a neighbour cuts.
    return {"groups": groups}, {"groups": "channels"}, IN_GROUP


class Convolution(Contraction):
    """A weighted op whose filters meet an image in windows; subclasses say which windows.

    With ``groups`` the einsum has a dim ``groups`` in all three tensors; ``in_channels`` and ``out_channels`` then
    count the channels within a group.
    """

    out_channels: Size
    kernel: SizePair
    stride: SizePair = (1, 1)
    padding: CountPair = (0, 0)
    dilation: SizePair = (1, 1)
    groups: Size = 1
    bias: bool = True

    @property
    @abstractmethod
    def windows(self) -> Mapping[str, Window]:
        """The window along each spatial dim."""

    def windows_on(self, inputs: tuple[Shape, ...]) -> Mapping[str, Window]:  # noqa: ARG002
        """Return the window along each spatial dim."""
        return self.windows

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return ``out_channels`` by the outputs of the windows."""
        shape = image_input(inputs)
        require_groups(shape["channels"], self.out_channels, self.groups)
        spatial = {dim: window.output_size(shape[dim]) for dim, window in self.windows.items()}
        return {"channels": self.out_channels, **spatial}

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:
        """Return the elements of the filters and the biases."""
        return sum(self.parameters(inputs).values())

    def parameters(self, inputs: tuple[Shape, ...]) -> dict[str, int]:
        """Return the elements of the filters and the biases."""
        per_filter = image_input(inputs)["channels"] // self.groups * math.prod(self.kernel)
        bias = {"bias": self.out_channels} if self.bias else {}
        return {"weight": self.out_channels * per_filter, **bias}

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:
        """Return ``F_out[n,g,o,h,w] = F_in[n,g,i,h',w'] . W[g,i,o,r,s]`` for the h' and w' that the windows read."""
        shape = image_input(inputs)
        group_sizes, group_dims, inner = grouped(self.groups)
        spatial = {"height": "height", "width": "width"}
        return Einsum(
            sizes={
                "batch": batch,
                **group_sizes,
                "in_channels": shape["channels"] // self.groups,
                "out_channels": self.out_channels // self.groups,
                "height": output["height"],
                "width": output["width"],
                "kernel_height": self.kernel[0],
                "kernel_width": self.kernel[1],
            },
            input={"batch": "batch", **group_dims, "in_channels": inner, **spatial},
            weight=(*group_sizes, "in_channels", "out_channels", "kernel_height", "kernel_width"),
            output={"batch": "batch", **group_dims, "out_channels": inner, **spatial},
            input_elements=batch * elements_of(shape),
            windows=self.windows,
            input_sizes={"height": shape["height"], "width": shape["width"]},
            zeros=self.zeros,
        )


class Sliding(Convolution):
    """A convolution whose filters slide over an image."""

    @property
    def windows(self) -> Mapping[str, Window]:
        """The window along each spatial dim."""
        pairs = zip(self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return {
            dim: Window(kernel=kernel, stride=stride, padding=padding, dilation=dilation)
            for dim, (kernel, stride, padding, dilation) in zip(("height", "width"), pairs, strict=True)
        }


class Resampling(Op):
    """An op without a weight that reads an image in windows, channel by channel, and gives another.

    It is a node of the operator graph.
    """

    pools: ClassVar[bool] = True

    @abstractmethod
    def image_windows(self, shape: Shape) -> Mapping[str, Window]:
        """Return the window along each spatial dim of an input."""

    def windows_on(self, inputs: tuple[Shape, ...]) -> Mapping[str, Window]:
        """Return the window along each spatial dim."""
        return self.image_windows(image_input(inputs))

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the channels by the outputs of the windows."""
        shape = image_input(inputs)
        spatial = {dim: window.output_size(shape[dim]) for dim, window in self.image_windows(shape).items()}
        return {"channels": shape["channels"], **spatial}

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:
        """Return ``F_out[n,c,h,w]`` of ``F_in[n,c,h',w']``, channel by channel."""
        shape = image_input(inputs)
        dims = {"batch": "batch", **{dim: dim for dim in output}}
        return Einsum(
            sizes={"batch": batch, **output},
            input=dims,
            weight=(),
            output=dims,
            input_elements=batch * elements_of(shape),
            windows=self.image_windows(shape),
            input_sizes={"height": shape["height"], "width": shape["width"]},
        )
