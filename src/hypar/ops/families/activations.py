"""Products of activations: of two tensors, attention, and positions to the experts of a mixture and back.

The experts are chosen by a routing that no plan depends on.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from hypar.ops.base import LARGEST_SIZE, TWO, Facts, Op, Shape, Size, need
from hypar.ops.dims import CONTRACTED, KERNEL, MADE, READ, DimName, Names, OneSized, Pairs, prefixed
from hypar.ops.nest import Projection, Saved, Sum
from hypar.ops.run import Run, chosen, shares
from hypar.ops.tape import Var, product
from hypar.ops.windows import Window, describe, fits, round_of

INDEX_BYTES = 4
"""Bytes of the number of an expert."""


class Matmul(Op):
    """``F_out[p,i,j] = F_1[p,i,k] . F_2[p,j,k]``: a sum over the dims ``over``, at each position of dims that both have.

    ``over`` names the dims that are contracted, or maps those of the first input to those of the second. ``names`` renames
    dims of the second input, where the first has other positions under the same name.
    """

    node = "join"
    takes = TWO
    saved = Saved(input=True)
    over: Pairs
    names: Pairs | None = None

    def _facts(self, one: Shape, two: Shape) -> Facts:
        over, names = dict(self.over), dict(self.names or ())
        need(one, over)
        need(two, [*over.values(), *names])
        back = {theirs: f"{CONTRACTED}{own}" for own, theirs in self.over}
        second = {axis: back.get(axis) or names.get(axis, axis) for axis in two}
        kept = {dim: size for dim, size in one.items() if dim not in over}
        by, inner = prefixed(CONTRACTED, {own: one[own] for own in over})
        theirs = {dim: two[axis] for axis, dim in second.items()}
        alike = {**kept, **inner}.items()
        unlike = [dim.removeprefix(CONTRACTED) for dim, size in alike if theirs.get(dim, size) != size]
        fits(not unlike, (one, two), f"equal {', '.join(unlike)}, or names for the second's")
        made = {**kept, **{dim: size for dim, size in theirs.items() if dim not in inner}}
        return {"loops": inner, "read": [{**one, **by}, second], "made": made, "fraction": 1.0}


class Attention(Op):
    """``softmax(Q K' / sqrt(d)) V`` of the queries, the keys and the values.

    A division of the keys leaves every device a part of the mean of each query: partial sums, whose devices first add up the
    exponentials of each query's scores.

    All three have the dims ``over`` that are attended over, and features as their last dim. The other dims of the keys,
    as ``kv_heads``, are those of the queries; dims that the queries alone have, as ``group``, share keys and values.

    Further inputs are pairs of queries and keys with features of their own, whose products are added to the scores: features
    of one query in several parts, as a part that is rotated beside one that is not. The keys of each part may lack other dims,
    as rotated keys that all heads share.

    Source of several parts: DeepSeek-AI, DeepSeek-V2 (2024), section 2.1.3, decoupled rotary positions.

    Attributes:
        over: the dims of the positions.
        causal: whether a query sees the keys up to its own position alone, which halves the operations.
        flash: whether scores are neither kept nor moved between memory and device.
    """

    node = "join"
    takes = (
        range(3, LARGEST_SIZE, 2),
        "3, the queries, the keys and the values, and pairs of further queries and keys",
    )
    over: Names = ("sequence",)
    causal: bool = False
    flash: bool = True

    def _facts(self, *inputs: Shape) -> Facts:
        """Return ``S[n,k,g,q,t] = Q[n,k,g,q,d] . K[n,k,t,d]`` and ``O[n,k,g,q,e] = softmax(S)[n,k,g,q,t] . V[n,k,t,e]``."""
        (rows, *_), own = self._parts(inputs)
        asking = [one for one, _ in _pairs(inputs)]
        keys, further = prefixed(CONTRACTED, {dim: inputs[1][dim] for dim in self.over})
        features = [prefixed(MADE if at == 2 else READ, feature) for at, feature in enumerate(own)]
        contracted = {dim: size for _, own in features for dim, size in own.items()}
        by = [own if at in asking else {**own, **keys} for at, (own, _) in enumerate(features)]
        kept = ("batch", *rows)
        num_rows, scores = math.prod(rows.values()), math.prod([*rows.values(), *further.values()])
        return {
            "loops": {**further, **contracted},
            "read": [{**shape, **own} for shape, own in zip(inputs, by, strict=True)],
            "made": {**rows, **features[2][0]},
            "products": tuple((*kept, *further, dim) for dim in contracted),
            "fraction": 0.5 if self.causal else 1.0,
            "whole": frozenset(contracted),
            "sums": {"exponential": Sum(kept), "product": Sum(kept, backward=True)},
            "saved": Saved(input=True, output=self.flash, elements=num_rows if self.flash else scores),
            "more": (0, 0) if self.flash else (4 * scores, 7 * scores),
        }

    def _parts(self, inputs: tuple[Shape, ...]) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
        """Return the rows and the features of each input, which have to fit those of the others."""
        for shape in inputs:
            need(shape, self.over)
        rows = [dict([*shape.items()][:-1]) for shape in inputs]
        features = [dict([*shape.items()][-1:]) for shape in inputs]
        for one, other in _pairs(inputs):
            both = f"queries of {describe(inputs[one])} and keys of {describe(inputs[other])}"
            alike = features[other] == features[one] and not {*features[one]} & {*self.over}
            fits(alike, both, "equal features last")
            shared = [dim for dim in rows[other] if self.causal or dim not in self.over]
            alike = all(inputs[one].get(dim) == rows[other][dim] for dim in shared)
            fits(alike, both, f"equal {', '.join(shared)}")
            both = f"queries of {describe(inputs[0])} and of {describe(inputs[one])}"
            fits(rows[one] == rows[0], both, "equal but for features")
        names = [name for one, _ in _pairs(inputs) for name in features[one]]
        found = f"features {', '.join(names)} of several parts"
        fits(len({*names}) == len(names), found, "a name for those of each")
        found = f"keys of {describe(inputs[1])} and values of {describe(inputs[2])}"
        fits(rows[1] == rows[2], found, "equal but for features")
        return rows, features

    def _value(self, run: Run, *read: Var) -> Var:
        """Return the means of the values; no largest score is subtracted first, so that sums alone need all keys."""
        nest, pairs = run.nest, _pairs(run.nest.inputs)
        *scored, _ = nest.products[0]
        first, *parts = (product((read[one], read[other]), scored) for one, other in pairs)
        size = sum(nest.inputs[one].shape[-1] for one, _ in pairs)
        further = [dim for dim in scored if dim.startswith(CONTRACTED)]
        exponentials = (sum(parts, first) * (1 / math.sqrt(size))).exp()
        if self.causal:
            last, key = (
                reduce(lambda found, dim: found * nest.sizes[dim] + run.place(dim), dims, Var((), 0))
                for dims in (self.over, further)
            )
            seen = last - key
            exponentials = exponentials * Var(seen.dims, seen.value >= 0)
        return product((shares(run, exponentials, further), read[2]), nest.result.dims)


def _pairs(inputs: tuple[object, ...]) -> tuple[tuple[int, int], ...]:
    """Return the numbers of the queries and the keys of each part of the features."""
    return ((0, 1), *((number, number + 1) for number in range(3, len(inputs), 2)))


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

    def _facts(self, shape: Shape) -> Facts:
        need(shape, [self.over])
        size = round_of(self.to[0][1], self.count)
        slots = {**dict(self.to), self.slots: -(-shape[self.over] // size)}
        rest = {dim: size for dim, size in shape.items() if dim != self.over}
        once = len(slots) == 2 and not {*slots} & {*rest}
        fits(once, f"{', '.join(slots)} and an input of {describe(shape)}", "each dim once")
        window = Window(kernel=size, stride=size)
        reads = Projection(shape[self.over], (self.slots, f"{KERNEL}{self.over}"), window)
        return {
            "made": {**slots, **rest},
            "read": [{**shape, self.over: reads}],
            "fraction": 0.0,
            "rounds": {self.over: window.kernel, **dict(self.to)},
            "saved": Saved(mask_bytes=INDEX_BYTES * self.count * shape[self.over]),
        }

    def _value(self, run: Run, read: Var) -> Var:
        ((experts, _),), size = self.to, run.nest.rounds[self.over]
        positions = run.place(self.slots) * size + Var((f"{KERNEL}{self.over}",), np.arange(size))
        return product((read, chosen(run, positions, experts, self.count)), run.nest.result.dims)


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
        need(made, (self.over, self.slots))
        need(gates, [self.over])
        experts = made[self.over]
        rest = {dim: made[dim] for dim in made if dim not in {self.over, self.slots}}
        found = f"{describe(made)} and gates of {describe(gates)}"
        alike = len(gates) == 2 and gates[self.over] == experts
        fits(alike, found, f"gates of the positions and {experts} {self.over}")
        ((positions, number),) = [own for own in gates.items() if own[0] != self.over]
        size, own = round_of(experts, self.count), made[self.slots]
        slots = -(-number // size)
        found = f"{own} {self.slots} for {number} positions of {self.count} experts each"
        fits(own == slots, found, f"{slots}")
        fits(positions not in rest, f"{positions} in both inputs", "in the gates alone")
        window = Window(kernel=1, stride=1, outputs=size)
        reads = Projection(slots, (positions, f"{KERNEL}{self.slots}"), window)
        return {
            "made": {positions: number, **rest},
            "loops": {self.over: experts},
            "read": [{**made, self.slots: reads}, gates],
            "fraction": self.count / experts,
        }

    def _value(self, run: Run, made: Var, gates: Var) -> Var:
        positions = next(dim for dim in gates.dims[1:] if dim != self.over)
        gone = chosen(run, run.place(positions), self.over, self.count)
        return product((made, gates * gone), run.nest.result.dims)


plugins: dict[str, type[Op]] = {
    "attention": Attention, "combine": Combine, "dispatch": Dispatch, "matmul": Matmul,
}  # fmt: skip
