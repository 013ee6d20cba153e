"""Other elementwise functions, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from hypar.network.keeping import Keeps
from hypar.network.ops.base import Op, Shape, elements_of, one_input
from hypar.network.ops.base import Pointwise as Base
from hypar.network.windows import Window

if TYPE_CHECKING:
    from collections.abc import Mapping

LRN_CHANNELS = 5
"""Channels that a local response normalisation reads for each, as AlexNet's (NIPS 2012, section 3.3)."""

OF_OUTPUT = frozenset({"sigmoid", "tanh"})
"""Functions whose derivative follows from their output; that of all others takes their input."""


class Pointwise(Base):
    """A named elementwise function; the name does not influence the plan.

    ``lrn``, local response normalisation, reads a few neighbouring channels as well; a plan treats it as
    pointwise because their communication is a thousandth of a layer's. ``other`` is any function without a name here.
    """

    function: Literal[
        "elu", "gelu", "hardswish", "leaky_relu", "lrn", "other", "relu6", "sigmoid", "silu", "tanh"
    ]

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:
        """Return its output or its input; a local response normalisation keeps the divisor of each element as well."""
        divisors = elements_of(one_input(inputs)) if self.function == "lrn" else 0
        kept = self.function in OF_OUTPUT
        return Keeps(input=not kept, output=kept, elements=divisors)

    def windows_on(self, inputs: tuple[Shape, ...]) -> Mapping[str, Window]:  # noqa: ARG002
        """Return the channels of a local response normalisation, the own one in the middle."""
        return (
            {"channels": Window(kernel=LRN_CHANNELS, padding=LRN_CHANNELS // 2)}
            if self.function == "lrn"
            else {}
        )


plugin: type[Op] = Pointwise
