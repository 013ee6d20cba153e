"""Fully connected layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.network.ops.bases.matrices import Matrices

if TYPE_CHECKING:
    from hypar.network.ops.base import Op


class Linear(Matrices):
    """``F_out = F_in . W`` on a vector of features; with ``out``, over every position of the dims that are not contracted."""


plugin: type[Op] = Linear
