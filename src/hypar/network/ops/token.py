"""A trained token before the positions of a sequence, as the class token of a vision transformer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from hypar.network.ops.base import Op, Shape, one_input, require_dims
from hypar.network.windows import Window

if TYPE_CHECKING:
    from collections.abc import Mapping


class Token(Op):
    """The positions of ``over``, and before them one that is trained."""

    back_statistics: ClassVar[tuple[str, ...]] = ("weight",)
    over: str = "sequence"

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the input's shape with one position more."""
        shape = one_input(inputs)
        require_dims(shape, (self.over,))
        return {dim: size + (dim == self.over) for dim, size in shape.items()}

    def windows_on(self, inputs: tuple[Shape, ...]) -> Mapping[str, Window]:  # noqa: ARG002
        """Return that a position reads the one before it."""
        return {self.over: Window(kernel=1, padding=1)}

    def reduced(self, name: str, shape: Shape) -> frozenset[str]:  # noqa: ARG002
        """Return the dims that the gradient's sum runs over."""
        return frozenset({"batch", self.over})

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:
        """Return the elements of a position."""
        return math.prod(size for dim, size in one_input(inputs).items() if dim != self.over)

    def parameters(self, inputs: tuple[Shape, ...]) -> Mapping[str, int]:
        """Return the elements of the token."""
        return {"weight": self.num_parameters(inputs)}

    def parameter_dims(self, name: str, shape: Shape) -> tuple[str, ...]:  # noqa: ARG002
        """Return the dims of a position."""
        return tuple(dim for dim in shape if dim != self.over)


plugin: type[Op] = Token
