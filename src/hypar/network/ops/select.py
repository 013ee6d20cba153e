"""One position of a sequence, as that of the class token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.network.ops.base import Count, Op, Shape, describe, one_input, require_dims
from hypar.network.windows import ShapeError, Window

if TYPE_CHECKING:
    from collections.abc import Mapping


class Select(Op):
    """The position ``index`` of the dim ``over``, which is left with one position."""

    over: str = "sequence"
    index: Count = 0

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the input's shape with one position."""
        shape = one_input(inputs)
        require_dims(shape, (self.over,))
        if self.index >= shape[self.over]:
            raise ShapeError(
                f"found index {self.index} of {describe(shape)}; allowed: below {shape[self.over]}"
            )
        return {dim: 1 if dim == self.over else size for dim, size in shape.items()}

    def windows_on(self, inputs: tuple[Shape, ...]) -> Mapping[str, Window]:  # noqa: ARG002
        """Return the position that is read."""
        return {self.over: Window(kernel=1, padding=-self.index)}


plugin: type[Op] = Select
