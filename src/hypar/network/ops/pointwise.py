"""Other elementwise functions, by name."""

from __future__ import annotations

from typing import Literal

from hypar.network.ops.base import Op
from hypar.network.ops.base import Pointwise as Base


class Pointwise(Base):
    """A named elementwise function; the name does not influence the plan.

    ``lrn``, local response normalisation, reads a few neighbouring channels as well; a plan treats it as
    pointwise because their communication is a thousandth of a layer's.
    """

    function: Literal["elu", "gelu", "hardswish", "leaky_relu", "lrn", "relu6", "sigmoid", "silu", "tanh"]


plugin: type[Op] = Pointwise
