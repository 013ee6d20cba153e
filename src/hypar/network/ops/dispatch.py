"""Dispatch of positions to experts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import model_validator

from hypar.network.einsum import Einsum
from hypar.network.keeping import Keeps
from hypar.network.named import DimName, Sized
from hypar.network.ops.base import Op, Shape, Size, describe, one_input, require_dims
from hypar.network.routing import round_of, sent, slots_of
from hypar.network.windows import ShapeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.windows import Window

INDEX_BYTES = 4
"""Bytes of the number of an expert."""


class Dispatch(Op):
    """``F_out[n,e,c,h] = F_in[n,s,h]`` for the position s that is in slot c of expert e, or 0 in an empty slot.

    Every position of ``over`` goes to ``count`` of the experts, which are the dim ``to``. Experts have as many ``slots`` as
    needed where each gets its even share, so that no position is dropped. The experts' numbers come from a router; a plan
    depends on no one's choice of them, and counts no bytes of the numbers.

    Source: Lepikhin and others, GShard (2020), Algorithm 1, where a group is a sample.
    """

    sized: ClassVar[tuple[str, ...]] = ("to",)
    join: ClassVar[bool] = True
    to: Sized
    count: Size
    over: str = "sequence"
    slots: DimName = "slots"

    @model_validator(mode="after")
    def _one_dim(self) -> Self:
        """Require one dim of experts."""
        if len(self.to) != 1:
            msg = "to is one dim"
            raise ValueError(msg)
        return self

    @property
    def multiplies(self) -> bool:
        """Return that it multiplies its input with a selection."""
        return True

    @property
    def names_dims(self) -> bool:
        """Return that its dims are named."""
        return True

    @property
    def experts(self) -> int:
        """The number of experts."""
        return self.to[0][1]

    @property
    def rounds(self) -> Mapping[str, int]:
        """The positions that fill a slot of each expert, and all experts."""
        return {self.over: round_of(self.experts, self.count), **dict(self.to)}

    def windows_on(self, inputs: tuple[Shape, ...]) -> Mapping[str, Window]:  # noqa: ARG002
        """Return the window of positions that a slot reads."""
        return {self.over: sent(self.experts, self.count)}

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the experts, their slots, and the dims of a position."""
        shape = one_input(inputs)
        require_dims(shape, (self.over,))
        made = {**dict(self.to), self.slots: slots_of(shape[self.over], self.experts, self.count)}
        rest = {dim: size for dim, size in shape.items() if dim != self.over}
        if len(made) < 2 or {*made} & {*rest}:
            raise ShapeError(
                f"found {', '.join(made)} and an input of {describe(shape)}; allowed: each dim once"
            )
        return {**made, **rest}

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:
        """Return the product of the input with a selection, whose dims are all; it takes no operations."""
        sizes = {"batch": batch, **output}
        (experts,) = dict(self.to)
        return Einsum(
            sizes=sizes,
            input={dim: self.over if dim == self.slots else dim for dim in sizes if dim != experts},
            weight=(),
            output={dim: dim for dim in sizes},
            input_elements=batch * math.prod(one_input(inputs).values()),
            products=(tuple(sizes),),
            fraction=0.0,
        )

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:
        """Return the numbers of the experts of each position."""
        return Keeps(mask_bytes=INDEX_BYTES * self.count * one_input(inputs)[self.over])


plugin: type[Op] = Dispatch
