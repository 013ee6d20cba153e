"""Dropout."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hypar.network.ops.base import Op, Pointwise


class Dropout(Pointwise):
    """Random zeroing of elements."""

    probability: Annotated[float, Field(ge=0, lt=1)] = 0.5


plugin: type[Op] = Dropout
