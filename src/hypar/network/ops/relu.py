"""Rectified linear unit, the most common pointwise op."""

from __future__ import annotations

from hypar.network.ops.base import Op, Pointwise


class Relu(Pointwise):
    """``max(0, x)``."""


plugin: type[Op] = Relu
