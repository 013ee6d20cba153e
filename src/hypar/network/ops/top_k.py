"""Gates of a mixture of experts: a softmax over the largest scores of each position."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from hypar.network.ops.base import Op, Shape, Size, describe
from hypar.network.ops.bases.normalising import Shares
from hypar.network.windows import ShapeError


class TopK(Shares):
    """``exp(x) / sum of exp(x)`` over the ``count`` largest scores of each position, and 0 for the others.

    Source: Jiang and others, Mixtral of Experts (2024), section 2.1.
    """

    count: Size

    @model_validator(mode="after")
    def _one_dim(self) -> Self:
        """Require one dim of scores."""
        if len(self.over) != 1:
            msg = "over is one dim"
            raise ValueError(msg)
        return self

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the input's shape."""
        shape = super().output_shape(inputs)
        most = shape[self.over[0]]
        if self.count > most:
            raise ShapeError(f"found count {self.count} for {describe(shape)}; allowed: at most {most}")
        return shape


plugin: type[Op] = TopK
