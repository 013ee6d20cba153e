"""Embedding: a row of a table for each token."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import model_validator

from hypar.network.dims import MADE, READ
from hypar.network.einsum import Einsum
from hypar.network.named import Sized
from hypar.network.ops.base import Contraction, Op, Shape, one_input

if TYPE_CHECKING:
    from collections.abc import Mapping


class Embedding(Contraction):
    """``F_out[n,p] = W[token of n,p]``: a product with one-hot vectors, which takes no operations.

    ``over`` is the dim of the table's rows, as ``vocab``; ``out`` the dims of a row. A division of the rows leaves every
    device the rows of the tokens that it has, and zeros for the others: partial sums.
    """

    sized: ClassVar[tuple[str, ...]] = ("over", "out")
    over: Sized
    out: Sized

    @model_validator(mode="after")
    def _one_dim(self) -> Self:
        """Require one dim of rows."""
        if len(self.over) != 1:
            msg = "over is one dim"
            raise ValueError(msg)
        return self

    @property
    def names_dims(self) -> bool:
        """Return that its dims are named."""
        return True

    @property
    def rows(self) -> int:
        """The number of the table's rows."""
        return self.over[0][1]

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the dims of the tokens, and behind them those of a row."""
        return {**one_input(inputs), **dict(self.out)}

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:  # noqa: ARG002
        """Return the elements of the table."""
        return self.rows * math.prod(size for _, size in self.out)

    def parameters(self, inputs: tuple[Shape, ...]) -> Mapping[str, int]:
        """Return the elements of the table."""
        return {"weight": self.num_parameters(inputs)}

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:  # noqa: ARG002
        """Return ``F_out[n,p,h] = onehot[n,p,v] . W[v,h]``; the tokens that stand for the one-hot vectors have no v."""
        tokens = {"batch": batch, **one_input(inputs)}
        rows, made = (
            {f"{READ}{dim}": dim for dim, _ in self.over},
            {f"{MADE}{dim}": dim for dim, _ in self.out},
        )
        sizes = {
            **tokens,
            **dict.fromkeys(rows, self.rows),
            **{f"{MADE}{dim}": size for dim, size in self.out},
        }
        return Einsum(
            sizes=sizes,
            input={dim: dim for dim in tokens},
            weight=(*rows, *made),
            output={**{dim: dim for dim in tokens}, **made},
            input_elements=math.prod(tokens.values()),
            products=(tuple(sizes),),
            fraction=0.0,
        )


plugin: type[Op] = Embedding
