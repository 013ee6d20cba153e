"""Softmax over the channels."""

from __future__ import annotations

from typing import ClassVar

from hypar.network.keeping import Keeps
from hypar.network.ops.base import Op, Shape


class Softmax(Op):
    """``exp(x) / sum of exp(x)``: an exponential, an addition and a division an element."""

    flop_per_element: ClassVar[int] = 3
    statistics: ClassVar[tuple[str, ...]] = ("exponential",)
    back_statistics: ClassVar[tuple[str, ...]] = ("product",)
    statistics_over: ClassVar[frozenset[str]] = frozenset({"channels"})

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:  # noqa: ARG002
        """Return that it keeps its output."""
        return Keeps(output=True)


plugin: type[Op] = Softmax
