"""Ops that meet each element with a trained number, as learned positions and the scale of a layer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from hypar.network.named import Names
from hypar.network.ops.base import Pointwise, Shape, one_input, require_dims

if TYPE_CHECKING:
    from collections.abc import Mapping


class Trained(Pointwise):
    """An elementwise op with a trained tensor of the dims ``over``, which all elements share along the other dims."""

    back_statistics: ClassVar[tuple[str, ...]] = ("weight",)
    statistics_over: ClassVar[frozenset[str]] = frozenset({"batch"})
    over: Names | None = None

    def dims(self, shape: Shape) -> tuple[str, ...]:
        """Return the dims of the trained tensor in the order of the input: all of a sample by default."""
        return tuple(dim for dim in shape if self.over is None or dim in self.over)

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the input's shape."""
        shape = one_input(inputs)
        require_dims(shape, self.over or ())
        return shape

    def reduced(self, name: str, shape: Shape) -> frozenset[str]:  # noqa: ARG002
        """Return the dims that the gradient's sum runs over: those that the trained tensor lacks."""
        return frozenset({"batch", *shape}) - frozenset(self.dims(shape))

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:
        """Return the elements of the trained tensor."""
        shape = one_input(inputs)
        return math.prod(shape[dim] for dim in self.dims(shape))

    def parameters(self, inputs: tuple[Shape, ...]) -> Mapping[str, int]:
        """Return the elements of the trained tensor."""
        return {"weight": self.num_parameters(inputs)}

    def parameter_dims(self, name: str, shape: Shape) -> tuple[str, ...]:  # noqa: ARG002
        """Return the dims of the trained tensor."""
        return self.dims(shape)
