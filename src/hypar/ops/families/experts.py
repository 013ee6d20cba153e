"""The experts of a mixture: scores of them, and positions to them and back, by a routing that no plan depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from hypar.ops.base import PAIR, Facts, Op, Shape, Size, describe, fits, need
from hypar.ops.dims import KERNEL, DimName, OneName, OneSized
from hypar.ops.families.attention import Softmax
from hypar.ops.operands import Projection, Saved
from hypar.ops.tape import Var, product
from hypar.ops.windows import Routing, SharedWindow, Window

if TYPE_CHECKING:
    from hypar.ops.run import Run

INDEX_BYTES = 4
"""Bytes of the number of an expert."""


class TopK(Softmax):
    """``f(x) / sum of f(x)`` over the ``count`` largest scores of each position, and 0 for the others.

    Attributes:
        count: the scores of a position that are taken.
        function: f, the exponential of a softmax, or the sigmoid.
        groups: groups of neighbouring scores, of which a position takes the best alone.
        best: how many of them; all if not given.

    Source: Jiang and others, Mixtral of Experts (2024), section 2.1; of the sigmoid and the groups DeepSeek-AI, DeepSeek-V3
    (2024), section 2.1.2.
    """

    over: OneName
    count: Size
    function: Literal["softmax", "sigmoid"] = "softmax"
    groups: Size = 1
    best: Size | None = None

    def _facts(self, shape: Shape) -> Facts:
        found, most = super()._facts(shape), shape[self.over[0]]
        fits(self.count <= most, f"count {self.count} for {describe(shape)}", f"at most {most}")
        (size, rest), best = divmod(most, self.groups), self.groups if self.best is None else self.best
        fits(
            not rest and best <= self.groups and self.count <= best * size,
            f"count {self.count} of the best {best} of {self.groups} groups of {most} {self.over[0]}",
            "groups of equal size, as many and as large as the count needs",
        )
        return found

    def _exponentials(self, run: Run, read: Var) -> Var:
        """Return the function of the scores to which a fixed routing sends each position, and 0 for the others."""
        (experts,) = self.over
        positions = next(dim for dim in read.dims[1:] if dim != experts)
        found = read.exp()
        value = found / (found + 1.0) if self.function == "sigmoid" else found
        return value * _chosen(run, positions, experts, self.count)


def _chosen(run: Run, positions: str, experts: str, count: int) -> Var:
    """Return whether each position goes to each expert."""
    dims = ("batch", positions, experts)
    chosen = Routing(run.nest.sizes[experts], count).chosen(*(run.index(dim) for dim in dims))
    return Var(dims, chosen)


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
    def routing(self) -> Routing:
        """The routing."""
        return Routing(self.to[0][1], self.count)

    def _facts(self, shape: Shape) -> Facts:
        """Return the product of the input with a selection, whose dims are all; it takes no operations."""
        need(shape, [self.over])
        slots = {**dict(self.to), self.slots: self.routing.num_slots(shape[self.over])}
        rest = {dim: size for dim, size in shape.items() if dim != self.over}
        once = len(slots) == 2 and not {*slots} & {*rest}
        fits(once, f"{', '.join(slots)} and an input of {describe(shape)}", "each dim once")
        size = self.routing.round
        window = Window(kernel=size, stride=size)
        reads = Projection(shape[self.over], (self.slots, f"{KERNEL}{self.over}"), window)
        return {
            "made": {**slots, **rest},
            "read": [{**shape, self.over: reads}],
            "fraction": 0.0,
            "rounds": {self.over: size, **dict(self.to)},
            "saved": Saved(mask_bytes=INDEX_BYTES * self.count * shape[self.over]),
        }

    def _value(self, run: Run, read: Var) -> Var:
        """Return the position in each slot, of those of a round."""
        ((experts, _),), size, slots = self.to, self.routing.round, run.index(self.slots)
        places = slots[:, None] * size + np.arange(size)
        chosen = self.routing.chosen(run.index("batch"), places.ravel(), run.index(experts))
        split = {self.slots: len(slots), f"{KERNEL}{self.over}": size}
        selected = Var(("batch", "positions", experts), chosen).split("positions", split)
        return product((read, selected), run.nest.result.dims)


class Combine(Op):
    """``F_out[n,s,h] = F_1[n,e,c,h] F_2[n,s,e]``, summed over the experts e to which the position s went, in slot c of each.

    The first input is what experts made of the slots of a ``dispatch``, the second the gates, one for each position and
    expert, ``over`` the dim of the experts, ``count`` those of a position.
    """

    node = "join"
    takes = (PAIR[0], f"{PAIR[1]}, what experts made and the gates")
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
        window = SharedWindow(kernel=1, stride=1, outputs=routing.round)
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
        chosen = _chosen(run, positions, self.over, self.count)
        return product((made, gates * chosen), run.nest.result.dims)


plugins: dict[str, type[Op]] = {"combine": Combine, "dispatch": Dispatch, "top_k": TopK}
