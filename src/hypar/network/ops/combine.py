"""Combination of what experts make of each position."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from hypar.network.einsum import Einsum
from hypar.network.keeping import Keeps
from hypar.network.named import DimName
from hypar.network.ops.base import Op, Shape, Size, describe, require_dims
from hypar.network.routing import brought_back, slots_of
from hypar.network.windows import ShapeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.windows import Window


class Combine(Op):
    """``F_out[n,s,h] = F_1[n,e,c,h] F_2[n,s,e]``, summed over the experts e to which the position s went, in slot c of each.

    The first input is what experts made of the slots of a ``dispatch``, the second the gates, one for each position and
    expert, ``over`` the dim of the experts, ``count`` those of a position.
    """

    join: ClassVar[bool] = True
    operands: ClassVar[int] = 2
    count: Size
    over: DimName = "experts"
    slots: DimName = "slots"

    @property
    def names_dims(self) -> bool:
        """Return that its dims are named."""
        return True

    def positions(self, inputs: tuple[Shape, ...]) -> str:
        """Return the dim of the positions, the one of the gates besides the experts."""
        return next(dim for dim in inputs[1] if dim != self.over)

    def windows_on(self, inputs: tuple[Shape, ...]) -> Mapping[str, Window]:
        """Return the window of slots that a position reads."""
        return {self.slots: brought_back(inputs[1][self.over], self.count)}

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the positions, and the dims of what an expert makes of one."""
        if len(inputs) != self.operands:
            raise ShapeError(f"found {len(inputs)} inputs; allowed: 2, what experts made and the gates")
        made, gates = inputs
        require_dims(made, (self.over, self.slots))
        require_dims(gates, (self.over,))
        if len(gates) != 2 or gates[self.over] != made[self.over]:
            raise ShapeError(
                f"found {describe(made)} and gates of {describe(gates)};"
                f" allowed: gates of the positions and {made[self.over]} {self.over}"
            )
        positions = self.positions(inputs)
        slots = slots_of(gates[positions], gates[self.over], self.count)
        if made[self.slots] != slots:
            raise ShapeError(
                f"found {made[self.slots]} {self.slots} for {gates[positions]} positions of {self.count} experts each;"
                f" allowed: {slots}"
            )
        rest = {dim: size for dim, size in made.items() if dim not in (self.over, self.slots)}
        if positions in rest:
            raise ShapeError(f"found {positions} in both inputs; allowed: in the gates alone")
        return {positions: gates[positions], **rest}

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:
        """Return the sum over the experts, of which each position meets ``count``."""
        made, gates = inputs
        sizes = {"batch": batch, **output, self.over: made[self.over]}
        positions = self.positions(inputs)
        return Einsum(
            sizes=sizes,
            input={dim: self.slots if dim == positions else dim for dim in sizes},
            weight=(),
            output={dim: dim for dim in sizes if dim != self.over},
            input_elements=batch * math.prod(made.values()),
            others=({"batch": "batch", **{dim: dim for dim in gates}},),
            products=(tuple(sizes),),
            fraction=self.count / made[self.over],
        )

    def unweighted_flop(self, inputs: tuple[Shape, ...]) -> int:
        """Return a multiplication and an addition for each element of each expert of a position."""
        return self.einsum(1, inputs, self.output_shape(inputs)).flop("forward")

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:  # noqa: ARG002
        """Return that it keeps its inputs, each of which is a factor of the other's error."""
        return Keeps(input=True)


plugin: type[Op] = Combine
