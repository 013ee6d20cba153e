"""Softmax over the channels."""

from __future__ import annotations

from typing import ClassVar

from hypar.network.ops.base import Op


class Softmax(Op):
    """``exp(x) / sum of exp(x)``: an exponential, an addition and a division an element."""

    flop_per_element: ClassVar[int] = 3
    statistics: ClassVar[tuple[str, ...]] = ("exponential",)
    back_statistics: ClassVar[tuple[str, ...]] = ("product",)
    statistics_over: ClassVar[frozenset[str]] = frozenset({"channels"})


plugin: type[Op] = Softmax
