"""Convolution over height and width."""

from __future__ import annotations

from hypar.network.ops.base import Op, Sliding


class Conv(Sliding):
    """A two-dimensional convolution."""


plugin: type[Op] = Conv
