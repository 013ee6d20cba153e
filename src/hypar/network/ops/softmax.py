"""Softmax over the channels."""

from __future__ import annotations

from typing import ClassVar

from hypar.network.ops.base import Op


class Softmax(Op):
    """``exp(x) / sum of exp(x)``: an exponential, an addition and a division an element."""

    flop_per_element: ClassVar[int] = 3


plugin: type[Op] = Softmax
