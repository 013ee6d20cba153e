"""The experts of a mixture: positions to them and back, by a routing that no plan depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.ops.base import TWO, Facts, Op, Shape, Size, describe, fits, need
from hypar.ops.dims import KERNEL, DimName, OneSized
from hypar.ops.nest import Projection, Saved
from hypar.ops.tape import Var, product
from hypar.ops.windows import Routing, Window

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

    sized = ("to",)
    node = "join"
    to: OneSized
    count: Size
    over: str = "sequence"
    slots: DimName = "slots"

    @property
    def _routing(self) -> Routing:
        return Routing(self.to[0][1], self.count)

    def _facts(self, shape: Shape) -> Facts:
        """Return the product of the input with a selection, whose dims are all; it takes no operations."""
        need(shape, [self.over])
        slots = {**dict(self.to), self.slots: self._routing.num_slots(shape[self.over])}
        rest = {dim: size for dim, size in shape.items() if dim != self.over}
        once = len(slots) == 2 and not {*slots} & {*rest}
        fits(once, f"{', '.join(slots)} and an input of {describe(shape)}", "each dim once")
        window = Window(kernel=self._routing.round, stride=self._routing.round)
        reads = Projection(shape[self.over], (self.slots, f"{KERNEL}{self.over}"), window)
        return {
            "made": {**slots, **rest},
            "read": [{**shape, self.over: reads}],
            "fraction": 0.0,
            "rounds": {self.over: window.kernel, **dict(self.to)},
            "saved": Saved(mask_bytes=INDEX_BYTES * self.count * shape[self.over]),
        }

    def _value(self, run: Run, read: Var) -> Var:
        """Return the position in each slot, of those of a round."""
        ((experts, _),), size, slots = self.to, self._routing.round, run.index(self.slots)
        places = slots[:, None] * size + np.arange(size)
        chosen = self._routing.chosen(run.index("batch"), places.ravel(), run.index(experts))
        dims = ("batch", self.slots, f"{KERNEL}{self.over}", experts)
        selected = Var(dims, chosen.reshape(len(chosen), len(slots), size, chosen.shape[-1]))
        return product((read, selected), run.nest.result.dims)


class Combine(Op):
    """``F_out[n,s,h] = F_1[n,e,c,h] F_2[n,s,e]``, summed over the experts e to which the position s went, in slot c of each.

    The first input is what experts made of the slots of a ``dispatch``, the second the gates, one for each position and
    expert, ``over`` the dim of the experts, ``count`` those of a position.
    """

    node = "join"
    takes = (TWO[0], f"{TWO[1]}, what experts made and the gates")
    saved = Saved(input=True)
    count: Size
    over: DimName = "experts"
    slots: DimName = "slots"

    def _facts(self, made: Shape, gates: Shape) -> Facts:
        """Return the sum over the experts, of which each position meets ``count``; a slot is that of a round of positions."""
        need(made, (self.over, self.slots))
        need(gates, [self.over])
        experts, rest = made[self.over], {**made}
        found = f"{describe(made)} and gates of {describe(gates)}"
        alike = len(gates) == 2 and gates[self.over] == experts
        fits(alike, found, f"gates of the positions and {experts} {self.over}")
        ((positions, number),) = [own for own in gates.items() if own[0] != self.over]
        routing, own = Routing(experts, self.count), rest.pop(self.slots)
        slots = routing.num_slots(number)
        found = f"{own} {self.slots} for {number} positions of {self.count} experts each"
        fits(own == slots, found, f"{slots}")
        del rest[self.over]
        fits(positions not in rest, f"{positions} in both inputs", "in the gates alone")
        window = Window(kernel=1, stride=1, outputs=routing.round)
        reads = Projection(slots, (positions, f"{KERNEL}{self.slots}"), window)
        left = {positions: number, **rest}
        return {
            "made": left,
            "loops": {**left, self.over: experts},
            "read": [{**made, self.slots: reads}, gates],
            "fraction": self.count / experts,
        }

    def _value(self, run: Run, made: Var, gates: Var) -> Var:
        positions = next(dim for dim in gates.dims[1:] if dim != self.over)
        dims, routing = ("batch", positions, self.over), Routing(run.nest.sizes[self.over], self.count)
        chosen = Var(dims, routing.chosen(*map(run.index, dims)))
        return product((made, gates * chosen), run.nest.result.dims)


plugins: dict[str, type[Op]] = {"combine": Combine, "dispatch": Dispatch}
