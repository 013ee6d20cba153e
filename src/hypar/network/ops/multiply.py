"""Product of tensors of one shape, element by element, as in a gated unit."""

from __future__ import annotations

from hypar.network.keeping import Keeps
from hypar.network.ops.base import Alike, Op, Shape


class Multiply(Alike):
    """``F_out = F_1 F_2 ...``, element by element."""

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:  # noqa: ARG002
        """Return that it keeps its inputs, each of which is a factor of the others' errors."""
        return Keeps(input=True)


plugin: type[Op] = Multiply
