"""Flattening of an image to a vector."""

from __future__ import annotations

from typing import ClassVar

from hypar.network.ops.base import Op, Shape, elements_of, one_input


class Flatten(Op):
    """A view of all dims of a sample as channels."""

    view: ClassVar[bool] = True

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the shape of one vector."""
        return {"channels": elements_of(one_input(inputs))}


plugin: type[Op] = Flatten
