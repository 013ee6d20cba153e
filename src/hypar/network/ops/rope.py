"""Rotary positions."""

from __future__ import annotations

from typing import ClassVar

from hypar.network.ops.base import Op, Pointwise, Shape, one_input, require_dims
from hypar.network.windows import ShapeError


class Rope(Pointwise):
    """Rotation of pairs of features by an angle that grows with the position, of halves as in Llama.

    The maker of its input may not divide ``dim``, whose halves a rotation mixes.

    Source: Su and others, RoFormer (2021), section 3.2.
    """

    flop_per_element: ClassVar[int] = 3
    over: str = "sequence"
    dim: str = "head_dim"

    @property
    def together(self) -> frozenset[str]:
        """The dim whose halves are mixed."""
        return frozenset({self.dim})

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the input's shape."""
        shape = one_input(inputs)
        require_dims(shape, (self.over, self.dim))
        if shape[self.dim] % 2:
            raise ShapeError(f"found {self.dim} of {shape[self.dim]}; allowed: an even size")
        return shape


plugin: type[Op] = Rope
