"""Attention: each query's mean of the values, weighed by a softmax over the keys."""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING

from hypar.ops.base import LARGEST_SIZE, Facts, Op, Shape, describe, fits, need, shares
from hypar.ops.dims import CONTRACTED, MADE, READ, Names, prefixed
from hypar.ops.nest import Saved, Sum
from hypar.ops.tape import Var, product

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.ops.run import Run


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
        "inputs; allowed: 3, the queries, the keys and the values, and pairs of further queries and keys",
    )
    over: Names = ("sequence",)
    causal: bool = False
    flash: bool = True

    def _facts(self, *inputs: Shape) -> Facts:
        """Return ``S[n,k,g,q,t] = Q[n,k,g,q,d] . K[n,k,t,d]`` and ``O[n,k,g,q,e] = softmax(S)[n,k,g,q,t] . V[n,k,t,e]``.

        Each further part has a product ``S``, to which it is added.
        """
        self._check(inputs)
        asking = [one for one, _ in _pairs(inputs)]
        rows, (keys, further) = (
            _rows(inputs[0]),
            prefixed(CONTRACTED, {dim: inputs[1][dim] for dim in self.over}),
        )
        features = [prefixed(MADE if at == 2 else READ, _features(own)) for at, own in enumerate(inputs)]
        contracted = {dim: size for _, own in features for dim, size in own.items()}
        by = [own if at in asking else {**own, **keys} for at, (own, _) in enumerate(features)]
        kept = ("batch", *rows)
        num_rows, scores = math.prod(rows.values()), math.prod([*rows.values(), *further.values()])
        return {
            "loops": {**rows, **further, **contracted},
            "read": [{**shape, **own} for shape, own in zip(inputs, by, strict=True)],
            "made": {**rows, **features[2][0]},
            "products": tuple((*kept, *further, dim) for dim in contracted),
            "fraction": 0.5 if self.causal else 1.0,
            "whole": frozenset(contracted),
            "sums": {"exponential": Sum(kept), "product": Sum(kept, backward=True)},
            "saved": Saved(input=True, output=self.flash, elements=num_rows if self.flash else scores),
            "more": (0, 0) if self.flash else (4 * scores, 7 * scores),
        }

    def _check(self, inputs: Sequence[Shape]) -> None:
        """Refuse inputs that do not fit."""
        for shape in inputs:
            need(shape, self.over)
        names: list[str] = []
        for queries, keys in ((inputs[one], inputs[other]) for one, other in _pairs(inputs)):
            both, own = f"queries of {describe(queries)} and keys of {describe(keys)}", _features(queries)
            fits(_features(keys) == own and not {*own} & {*self.over}, both, "equal features last")
            shared = [dim for dim in _rows(keys) if dim not in self.over]
            fits(all(queries.get(dim) == keys[dim] for dim in shared), both, f"equal {', '.join(shared)}")
            alike = not self.causal or all(queries[dim] == keys[dim] for dim in self.over)
            fits(alike, "unlike positions of queries and keys", "equal ones if causal")
            both = f"queries of {describe(inputs[0])} and of {describe(queries)}"
            fits(_rows(queries) == _rows(inputs[0]), both, "equal but for features")
            names += own
        found = f"features {', '.join(names)} of several parts"
        fits(len({*names}) == len(names), found, "a name for those of each")
        found = f"keys of {describe(inputs[1])} and values of {describe(inputs[2])}"
        fits(_rows(inputs[1]) == _rows(inputs[2]), found, "equal but for features")

    def _value(self, run: Run, *read: Var) -> Var:
        """Return the means of the values; of causal attention a query's scores of later keys are left out.

        The largest score is not subtracted first, so that sums alone need all keys.
        """
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


def _pairs(inputs: Sequence[object]) -> tuple[tuple[int, int], ...]:
    """Return the numbers of the queries and the keys of each part of the features."""
    return ((0, 1), *((number, number + 1) for number in range(3, len(inputs), 2)))


def _features(shape: Shape) -> dict[str, int]:
    return dict([*shape.items()][-1:])


def _rows(shape: Shape) -> dict[str, int]:
    return dict([*shape.items()][:-1])


plugins: dict[str, type[Op]] = {"attention": Attention}
