"""Volumes: their dims, and fields of a number for each."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from hypar.network.ops.base import Count, Shape, Size, describe, one_input
from hypar.network.windows import ShapeError

VOLUME = ("channels", "depth", "height", "width")
SPATIAL = VOLUME[1:]


def _as_triple(value: Any) -> Any:
    """Return one number as depth, height and width, and a list of three as a tuple."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value, value, value
    if isinstance(value, list | tuple) and len(value) == len(SPATIAL):
        return tuple(value)
    msg = "a whole number, or three of them as [depth, height, width]"
    raise ValueError(msg)


SizeTriple = Annotated[tuple[Size, Size, Size], BeforeValidator(_as_triple)]
CountTriple = Annotated[tuple[Count, Count, Count], BeforeValidator(_as_triple)]


def volume_input(inputs: tuple[Shape, ...]) -> Shape:
    """Return the only input of an op that slides over a volume.

    Raises:
        ShapeError: the input is not one volume.
    """
    shape = one_input(inputs)
    if tuple(shape) != VOLUME:
        raise ShapeError(f"found an input of {describe(shape)}; allowed: {', '.join(VOLUME)}")
    return shape
