"""Batch normalisation."""

from __future__ import annotations

from typing import ClassVar

from hypar.network.keeping import Keeps, Traffic
from hypar.network.ops.base import Op, Shape, elements_of, one_input


class BatchNorm(Op):
    """Normalisation of every channel; ``scale`` and ``shift`` are one trained number each for every channel."""

    flop_per_element: ClassVar[int] = 2
    statistics: ClassVar[tuple[str, ...]] = ("sum", "square")
    back_statistics: ClassVar[tuple[str, ...]] = ("weight", "bias")
    statistics_over: ClassVar[frozenset[str]] = frozenset({"batch", "height", "width"})
    scale: bool = True
    shift: bool = True

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:
        """Return the number of trained scales and shifts."""
        return sum(self.parameters(inputs).values())

    def parameters(self, inputs: tuple[Shape, ...]) -> dict[str, int]:
        """Return the scale, which frameworks call weight, and the shift, which they call bias."""
        trained = {"weight": self.scale, "bias": self.shift}
        return {name: one_input(inputs)["channels"] for name, held in trained.items() if held}

    def num_statistics(self, inputs: tuple[Shape, ...]) -> int:
        """Return the number of running means and variances."""
        return 2 * one_input(inputs)["channels"]

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:
        """Return that it keeps its input, and the mean and the deviation of each channel."""
        return Keeps(input=True, statistics=2 * one_input(inputs)["channels"])

    def traffic(self, inputs: tuple[Shape, ...]) -> Traffic:
        """Return what it reads and writes: each phase first reads all samples for its sums, and then once more."""
        own, once = super().traffic(inputs), elements_of(one_input(inputs))
        return own._replace(forward=own.forward + once, backward=own.backward + 2 * once)


plugin: type[Op] = BatchNorm
