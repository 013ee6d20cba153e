"""Sum of tensors of one shape, for example at the end of a residual block."""

from __future__ import annotations

from typing import ClassVar

from hypar.network.ops.base import Op, Shape, describe, elements_of
from hypar.network.windows import ShapeError


class Add(Op):
    """``F_out = F_1 + F_2 + ...``."""

    join: ClassVar[bool] = True

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the common shape of all inputs."""
        if len(inputs) < 2:
            raise ShapeError(f"found {len(inputs)} input; allowed: 2 or more")
        for shape in inputs[1:]:
            if dict(shape) != dict(inputs[0]):
                raise ShapeError(f"found {describe(inputs[0])} and {describe(shape)}; allowed: equal shapes")
        return inputs[0]

    def unweighted_flop(self, inputs: tuple[Shape, ...]) -> int:
        """Return one addition for each element of every input after the first."""
        return (len(inputs) - 1) * elements_of(inputs[0])


plugin: type[Op] = Add
