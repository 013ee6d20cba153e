"""Ops with sums over some dims of each position: normalisations and shares."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from hypar.network.keeping import Keeps
from hypar.network.named import Names
from hypar.network.ops.base import Op, Shape, one_input, require_dims

if TYPE_CHECKING:
    from collections.abc import Mapping


class Norm(Op):
    """A normalisation over some dims of each position, with a trained scale for each of their elements."""

    over: Names
    scale: bool = True

    @property
    def statistics_over(self) -> frozenset[str]:  # type: ignore[override]
        """The dims that it normalises over."""
        return frozenset(self.over)

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the input's shape."""
        shape = one_input(inputs)
        require_dims(shape, self.over)
        return shape

    def reduced(self, name: str, shape: Shape) -> frozenset[str]:
        """Return the dims that a sum runs over: the others for the gradient of a trained tensor."""
        if name in self.trained:
            return frozenset({"batch", *shape}) - frozenset(self.over)
        return frozenset(self.over)

    @property
    def trained(self) -> tuple[str, ...]:
        """The names of its trained tensors."""
        return ("weight",) if self.scale else ()

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:
        """Return the elements of its trained tensors."""
        return sum(self.parameters(inputs).values())

    def parameters(self, inputs: tuple[Shape, ...]) -> Mapping[str, int]:
        """Return the elements of each trained tensor."""
        shape = one_input(inputs)
        return dict.fromkeys(self.trained, math.prod(shape[dim] for dim in self.over))

    def parameter_dims(self, name: str, shape: Shape) -> tuple[str, ...]:  # noqa: ARG002
        """Return the dims of a trained tensor, in the order of the input."""
        return tuple(dim for dim in shape if dim in self.over)

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:
        """Return that it keeps its input, and the statistics of each position."""
        shape = one_input(inputs)
        positions = math.prod(size for dim, size in shape.items() if dim not in self.over)
        return Keeps(input=True, elements=len(self.statistics) * positions)


class Shares(Op):
    """A softmax over some dims: an exponential, an addition and a division an element."""

    flop_per_element: ClassVar[int] = 3
    statistics: ClassVar[tuple[str, ...]] = ("exponential",)
    back_statistics: ClassVar[tuple[str, ...]] = ("product",)
    over: Names

    @property
    def statistics_over(self) -> frozenset[str]:  # type: ignore[override]
        """The dims that are summed over."""
        return frozenset(self.over)

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the input's shape."""
        shape = one_input(inputs)
        require_dims(shape, self.over)
        return shape

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:  # noqa: ARG002
        """Return that it keeps its output."""
        return Keeps(output=True)
