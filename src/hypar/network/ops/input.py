"""The input of a network."""

from __future__ import annotations

from hypar.network.ops.base import Op, Shape, Size
from hypar.network.windows import ShapeError


class Input(Op):
    """The shape of one sample: channels alone, or channels, height and width."""

    channels: Size
    height: Size | None = None
    width: Size | None = None

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the stated shape."""
        if inputs:
            raise ShapeError(f"found {len(inputs)} inputs; allowed: none")
        if self.height is None and self.width is None:
            return {"channels": self.channels}
        if self.height is None or self.width is None:
            msg = "found one of height and width; allowed: both or neither"
            raise ShapeError(msg)
        return {"channels": self.channels, "height": self.height, "width": self.width}


plugin: type[Op] = Input
