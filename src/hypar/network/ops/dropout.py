"""Dropout."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hypar.network.keeping import Keeps
from hypar.network.ops.base import Op, Pointwise, Shape, elements_of, one_input


class Dropout(Pointwise):
    """Random zeroing of elements."""

    probability: Annotated[float, Field(ge=0, lt=1)] = 0.5

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:
        """Return a mask of a byte an element, which says what was zeroed."""
        return Keeps(mask_bytes=elements_of(one_input(inputs)))


plugin: type[Op] = Dropout
