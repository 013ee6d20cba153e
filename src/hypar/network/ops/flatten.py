"""Image to vector."""

from __future__ import annotations

from typing import ClassVar

from hypar.network.ops.base import Op, Shape, elements_of, one_input


class Flatten(Op):
    """All dims of a sample become channels."""

    view: ClassVar[bool] = True

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """One vector."""
        return {"channels": elements_of(one_input(inputs))}


plugin: type[Op] = Flatten
