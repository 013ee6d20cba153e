"""Softmax over the channels, or over dims that the model names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.network.named import Names
from hypar.network.ops.bases.normalising import Shares

if TYPE_CHECKING:
    from hypar.network.ops.base import Op


class Softmax(Shares):
    """``exp(x) / sum of exp(x)``."""

    over: Names = ("channels",)


plugin: type[Op] = Softmax
