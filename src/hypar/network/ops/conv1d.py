"""Convolution along the width of an image of one row, as of sound or text."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from hypar.network.ops.base import CountPair, Op, Shape, SizePair, describe
from hypar.network.ops.bases.windowed import Sliding
from hypar.network.windows import ShapeError


def _beside(one: int) -> BeforeValidator:
    """Return what reads a number as a pair, of which the other is that of the only row."""

    def pair(value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return one, value
        msg = "a whole number"
        raise ValueError(msg)

    return BeforeValidator(pair)


class Conv1d(Sliding):
    """A convolution of filters that are as high as the image, one row; fields have one number in place of pairs."""

    kernel: Annotated[SizePair, _beside(1)]
    stride: Annotated[SizePair, _beside(1)] = (1, 1)
    padding: Annotated[CountPair, _beside(0)] = (0, 0)
    dilation: Annotated[SizePair, _beside(1)] = (1, 1)

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return ``out_channels`` by a row of the windows' outputs."""
        made = super().output_shape(inputs)
        if inputs[0]["height"] != 1:
            raise ShapeError(f"found an input of {describe(inputs[0])}; allowed: a height of 1")
        return made


plugin: type[Op] = Conv1d
