"""Batch normalisation."""

from __future__ import annotations

from typing import ClassVar

from hypar.network.ops.base import Op, Shape, one_input


class BatchNorm(Op):
    """Normalises every channel; with ``scale`` and ``shift`` it trains one number each a channel."""

    flop_per_element: ClassVar[int] = 2
    scale: bool = True
    shift: bool = True

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:
        """The trained scale and shift of each channel."""
        return sum(self.parameters(inputs).values())

    def parameters(self, inputs: tuple[Shape, ...]) -> dict[str, int]:
        """The scale, which frameworks call weight, and the shift, their bias."""
        trained = {"weight": self.scale, "bias": self.shift}
        return {name: one_input(inputs)["channels"] for name, held in trained.items() if held}

    def num_statistics(self, inputs: tuple[Shape, ...]) -> int:
        """The running mean and variance of each channel."""
        return 2 * one_input(inputs)["channels"]


plugin: type[Op] = BatchNorm
