"""Sum of tensors of one shape, for example at the end of a residual block."""

from __future__ import annotations

from typing import ClassVar

from hypar.network.ops.base import Alike, Op


class Add(Alike):
    """``F_out = F_1 + F_2 + ...``."""

    passes: ClassVar[bool] = True


plugin: type[Op] = Add
