"""Rectified linear unit, the most common pointwise op."""

from __future__ import annotations

from hypar.network.keeping import Keeps
from hypar.network.ops.base import Op, Pointwise, Shape


class Relu(Pointwise):
    """``max(0, x)``."""

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:  # noqa: ARG002
        """Return that it keeps its output, whose zeros say where errors end."""
        return Keeps(output=True)


plugin: type[Op] = Relu
