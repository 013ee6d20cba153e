"""Any other function of each element by itself."""

from __future__ import annotations

from typing import Literal

from hypar.network.ops.base import Op
from hypar.network.ops.base import Pointwise as Base


class Pointwise(Base):
    """A named function; the name is for the reader, the plan only needs that it is pointwise.

    ``lrn``, local response normalisation, reads a few neighbouring channels as well; a plan counts it as
    pointwise because those are a thousandth of what a layer exchanges.
    """

    function: Literal["elu", "gelu", "hardswish", "leaky_relu", "lrn", "sigmoid", "silu", "tanh"]


plugin: type[Op] = Pointwise
