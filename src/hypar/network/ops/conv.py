"""Convolution over height and width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.network.ops.bases.windowed import Sliding

if TYPE_CHECKING:
    from hypar.network.ops.base import Op


class Conv(Sliding):
    """A two-dimensional convolution."""


plugin: type[Op] = Conv
