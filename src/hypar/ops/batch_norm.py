"""Batch normalisation."""

from __future__ import annotations

from typing import ClassVar

from hypar.ops.base import Op, Shape, one_input


class BatchNorm(Op):
    """Normalises every channel; with ``scale`` and ``shift`` it trains one number each a channel."""

    flop_per_element: ClassVar[int] = 2
    scale: bool = True
    shift: bool = True

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:
        """The trained scale and shift of each channel."""
        return one_input(inputs)["channels"] * (self.scale + self.shift)


plugin: type[Op] = BatchNorm
