"""Gates of a mixture of experts: shares of the largest scores of each position."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from hypar.network.ops.base import Op, Shape, Size, describe
from hypar.network.ops.bases.normalising import Shares
from hypar.network.windows import ShapeError


class TopK(Shares):
    """``f(x) / sum of f(x)`` over the ``count`` largest scores of each position, and 0 for the others.

    Attributes:
        count: the scores of a position that are taken.
        function: f, the exponential of a softmax, or the sigmoid.
        groups: groups of neighbouring scores, of which a position takes the best alone.
        best: how many of them; all if not given.

    Source: Jiang and others, Mixtral of Experts (2024), section 2.1; of the sigmoid and the groups DeepSeek-AI, DeepSeek-V3
    (2024), section 2.1.2.
    """

    count: Size
    function: Literal["softmax", "sigmoid"] = "softmax"
    groups: Size = 1
    best: Size | None = None

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
        best = self.groups if self.best is None else self.best
        if most % self.groups or best > self.groups or self.count > best * (most // self.groups):
            raise ShapeError(
                f"found count {self.count} of the best {best} of {self.groups} groups of {most} {self.over[0]};"
                " allowed: groups of equal size, as many and as large as the count needs"
            )
        return shape


plugin: type[Op] = TopK
