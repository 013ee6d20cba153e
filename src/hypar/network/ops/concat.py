"""Concatenation of tensors along their channels."""

from __future__ import annotations

from typing import ClassVar

from hypar.network.ops.base import Op, Shape, describe
from hypar.network.windows import ShapeError


class Concat(Op):
    """A join along ``channels``. With channels cut, a device holds its shard of every input's channels."""

    join: ClassVar[bool] = True
    passes: ClassVar[bool] = True
    concatenates: ClassVar[bool] = True

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the inputs' shape with their channels added up; the other dims must agree."""
        if len(inputs) < 2:
            raise ShapeError(f"found {len(inputs)} input; allowed: 2 or more")
        first = dict(inputs[0])
        for shape in inputs[1:]:
            if dict(shape) | {"channels": 0} != first | {"channels": 0}:
                raise ShapeError(
                    f"found {describe(first)} and {describe(shape)}; allowed: equal but for channels"
                )
        return first | {"channels": sum(shape["channels"] for shape in inputs)}


plugin: type[Op] = Concat
