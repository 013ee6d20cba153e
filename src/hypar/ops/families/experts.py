"""The experts of a mixture: positions to them and back, by a routing that no plan depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hypar.ops.base import Node, Op, Shape, Size, describe, one_input, require_dims, several_inputs
from hypar.ops.dims import KERNEL, DimName, OneSized
from hypar.ops.nest import Nest
from hypar.ops.operands import Projection, Saved
from hypar.ops.tape import Var, product
from hypar.ops.windows import Routing, ShapeError, SharedWindow, Window

if TYPE_CHECKING:
    from hypar.ops.run import Run

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
    node: ClassVar[Node] = "join"
    to: OneSized
    count: Size
    over: str = "sequence"
    slots: DimName = "slots"

    @property
    def routing(self) -> Routing:
        """The routing."""
        return Routing(self.to[0][1], self.count)

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return the product of the input with a selection, whose dims are all; it takes no operations."""
        shape = one_input(inputs, self.over)
        slots = {**dict(self.to), self.slots: self.routing.num_slots(shape[self.over])}
        rest = {dim: size for dim, size in shape.items() if dim != self.over}
        if len(slots) < 2 or {*slots} & {*rest}:
            raise ShapeError(
                f"found {', '.join(slots)} and an input of {describe(shape)}; allowed: each dim once"
            )
        window = Window(kernel=self.routing.round, stride=self.routing.round)
        read = {self.over: Projection(shape[self.over], (self.slots, f"{KERNEL}{self.over}"), window)}
        made = {**slots, **rest}
        return Nest.of(
            batch,
            made,
            [{**shape, **read}],
            made,
            products=(("batch", *made),),
            fraction=0.0,
            rounds={self.over: self.routing.round, **dict(self.to)},
            saved=Saved(mask_bytes=INDEX_BYTES * self.count * shape[self.over]),
        )

    def value(self, run: Run) -> Var:
        """Return the position in each slot, of those of a round."""
        ((experts, _),), size, slots = self.to, self.routing.round, run.index(self.slots)
        places = slots[:, None] * size + np.arange(size)
        chosen = self.routing.chosen(run.index("batch"), places.ravel(), run.index(experts))
        selected = Var(("batch", "positions", experts), chosen).split(
            "positions", {self.slots: len(slots), f"{KERNEL}{self.over}": size}
        )
        return product((run.input(), selected), run.nest.result.dims)


class Combine(Op):
    """``F_out[n,s,h] = F_1[n,e,c,h] F_2[n,s,e]``, summed over the experts e to which the position s went, in slot c of each.

    The first input is what experts made of the slots of a ``dispatch``, the second the gates, one for each position and
    expert, ``over`` the dim of the experts, ``count`` those of a position.
    """

    node: ClassVar[Node] = "join"
    count: Size
    over: DimName = "experts"
    slots: DimName = "slots"

    def positions(self, gates: Shape) -> str:
        """Return the dim of the positions, the one of the gates besides the experts."""
        return next(dim for dim in gates if dim != self.over)

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return the sum over the experts, of which each position meets ``count``; a slot is that of a round of positions."""
        made, gates = several_inputs(inputs, ", what experts made and the gates")
        require_dims(made, (self.over, self.slots))
        require_dims(gates, (self.over,))
        if len(gates) != 2 or gates[self.over] != made[self.over]:
            raise ShapeError(
                f"found {describe(made)} and gates of {describe(gates)};"
                f" allowed: gates of the positions and {made[self.over]} {self.over}"
            )
        positions, routing = self.positions(gates), Routing(gates[self.over], self.count)
        slots = routing.num_slots(gates[positions])
        if made[self.slots] != slots:
            raise ShapeError(
                f"found {made[self.slots]} {self.slots} for {gates[positions]} positions of {self.count} experts each;"
                f" allowed: {slots}"
            )
        rest = {dim: size for dim, size in made.items() if dim not in (self.over, self.slots)}
        if positions in rest:
            raise ShapeError(f"found {positions} in both inputs; allowed: in the gates alone")
        window = SharedWindow(kernel=1, stride=1, outputs=routing.round)
        read = {self.slots: Projection(made[self.slots], (positions, f"{KERNEL}{self.slots}"), window)}
        left = {positions: gates[positions], **rest}
        loops, fraction = {**left, self.over: made[self.over]}, self.count / made[self.over]
        products = (("batch", *loops),)
        both = [{**made, **read}, gates]
        return Nest.of(
            batch, loops, both, left, products=products, fraction=fraction, saved=Saved(input=True)
        )

    def value(self, run: Run) -> Var:
        """Return the terms of the piece's experts."""
        gates = run.input(1)
        positions = self.positions(dict.fromkeys(gates.dims[1:], 0))
        routing = Routing(run.nest.sizes[self.over], self.count)
        chosen = routing.chosen(*(run.index(dim) for dim in ("batch", positions, self.over)))
        return product(
            (run.input(), gates * Var(("batch", positions, self.over), chosen)), run.nest.result.dims
        )


plugins: dict[str, type[Op]] = {"combine": Combine, "dispatch": Dispatch}
