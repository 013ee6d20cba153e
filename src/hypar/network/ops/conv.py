"""Convolution over height and width."""

from __future__ import annotations

from hypar.network.ops.base import Convolution, Op
from hypar.network.windows import Window


class Conv(Convolution):
    """A two-dimensional convolution."""

    @property
    def windows(self) -> dict[str, Window]:
        """The window along each spatial dim."""
        pairs = zip(self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return {
            dim: Window(kernel=kernel, stride=stride, padding=padding, dilation=dilation)
            for dim, (kernel, stride, padding, dilation) in zip(("height", "width"), pairs, strict=True)
        }


plugin: type[Op] = Conv
