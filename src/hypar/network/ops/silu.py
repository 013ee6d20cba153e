"""Sigmoid linear unit."""

from __future__ import annotations

from hypar.network.keeping import Keeps
from hypar.network.ops.base import Op, Pointwise, Shape


class Silu(Pointwise):
    """``x / (1 + exp(-x))``, element by element."""

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:  # noqa: ARG002
        """Return that it keeps its input, from which its slope follows."""
        return Keeps(input=True)


plugin: type[Op] = Silu
