"""Attention: each query's mean of the values, weighed by a softmax over the keys."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from hypar.ops.base import Node, Op, Shape, describe, elements_of, prefixed, require_dims
from hypar.ops.dims import CONTRACTED, MADE, READ, Names
from hypar.ops.nest import Nest
from hypar.ops.operands import Saved, Sum
from hypar.ops.tape import Var, product
from hypar.ops.windows import ShapeError

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

    node: ClassVar[Node] = "join"
    over: Names = ("sequence",)
    causal: bool = False
    flash: bool = True

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return ``S[n,k,g,q,t] = Q[n,k,g,q,d] . K[n,k,t,d]`` and ``O[n,k,g,q,e] = softmax(S)[n,k,g,q,t] . V[n,k,t,e]``.

        Each further part has a product ``S``, to which it is added.
        """
        self._check(inputs)
        (queries, keys, _values), asking = inputs[:3], [one for one, _ in _pairs(len(inputs))]
        rows, (keys_by, further) = _rows(queries), prefixed(CONTRACTED, {dim: keys[dim] for dim in self.over})
        features = [prefixed(MADE if at == 2 else READ, _features(shape)) for at, shape in enumerate(inputs)]
        contracted = {dim: size for at in (0, 2, *asking[1:]) for dim, size in features[at][1].items()}
        read = [
            {**shape, **by, **({} if at in asking else keys_by)}
            for at, (shape, (by, _)) in enumerate(zip(inputs, features, strict=True))
        ]
        num_rows, scores = elements_of(rows), elements_of(rows) * math.prod(further.values())
        kept = ("batch", *rows)
        return Nest.of(
            batch,
            {**rows, **further, **contracted},
            read,
            {**rows, **features[2][0]},
            products=tuple((*kept, *further, dim) for dim in contracted),
            fraction=0.5 if self.causal else 1.0,
            whole=frozenset(contracted),
            sums={"exponential": Sum(kept), "product": Sum(kept, backward=True)},
            saved=Saved(input=True, output=self.flash, elements=num_rows if self.flash else scores),
            more=(0, 0) if self.flash else (4 * scores, 7 * scores),
        )

    def _check(self, inputs: tuple[Shape, ...]) -> None:
        """Check the inputs.

        Raises:
            ShapeError: they do not fit.
        """
        if len(inputs) < 3 or len(inputs) % 2 == 0:
            raise ShapeError(
                f"found {len(inputs)} inputs; allowed: 3, the queries, the keys and the values, and pairs of further"
                " queries and keys"
            )
        for shape in inputs:
            require_dims(shape, self.over)
        parts = [(inputs[one], inputs[other]) for one, other in _pairs(len(inputs))]
        for part in parts:
            self._fit(inputs[0], *part)
        features = [dim for queries, _ in parts for dim in _features(queries)]
        if len({*features}) < len(features):
            raise ShapeError(
                f"found features {', '.join(features)} of several parts; allowed: a name for those of each"
            )
        if _rows(inputs[1]) != _rows(inputs[2]):
            raise ShapeError(
                f"found keys of {describe(inputs[1])} and values of {describe(inputs[2])}; allowed: equal but for features"
            )

    def _fit(self, first: Shape, queries: Shape, keys: Shape) -> None:
        """Check the queries and the keys of a part against the queries of the first one."""
        both = f"queries of {describe(queries)} and keys of {describe(keys)}"
        if _features(keys) != _features(queries) or {*_features(queries)} & {*self.over}:
            raise ShapeError(f"found {both}; allowed: equal features last")
        shared = [dim for dim in _rows(keys) if dim not in self.over]
        if any(queries.get(dim) != keys[dim] for dim in shared):
            raise ShapeError(f"found {both}; allowed: equal {', '.join(shared)}")
        if self.causal and any(queries[dim] != keys[dim] for dim in self.over):
            raise ShapeError("found unlike positions of queries and keys; allowed: equal ones if causal")
        if _rows(queries) != _rows(first):
            raise ShapeError(
                f"found queries of {describe(first)} and of {describe(queries)}; allowed: equal but for features"
            )

    def value(self, run: Run) -> Var:
        """Return the means of the values; of causal attention a query's scores of later keys are left out.

        The largest score is not subtracted first, so that sums alone need all keys.
        """
        nest, count = run.nest, len(run.nest.inputs)
        *scored, _ = nest.products[0]
        read = [run.input(number) for number in range(count)]
        parts = [product((read[one], read[other]), scored) for one, other in _pairs(count)]
        size = sum(nest.inputs[one].shape[-1] for one, _ in _pairs(count))
        further = [dim for dim in scored if dim.startswith(CONTRACTED)]
        scores = sum(parts[1:], parts[0]) * (1 / math.sqrt(size))
        exponentials = scores.exp()
        if self.causal:
            seen = _place(run, self.over) - _place(run, further)
            exponentials = exponentials * Var(seen.dims, seen.value >= 0)
        shares = run.shared("product", Var((), 1.0) / run.total("exponential", exponentials.sum(further)))
        return product((exponentials * shares, read[2]), nest.result.dims)


def _pairs(inputs: int) -> tuple[tuple[int, int], ...]:
    """Return the numbers of the queries and the keys of each part of the features."""
    return ((0, 1), *((number, number + 1) for number in range(3, inputs, 2)))


def _features(shape: Shape) -> dict[str, int]:
    return dict([*shape.items()][-1:])


def _rows(shape: Shape) -> dict[str, int]:
    return dict([*shape.items()][:-1])


def _place(run: Run, dims: Sequence[str]) -> Var:
    """Return the number of each position along some dims, the first outermost."""
    found = Var((), 0)
    for dim in dims:
        found = found * run.nest.sizes[dim] + run.place(dim)
    return found


plugins: dict[str, type[Op]] = {"attention": Attention}
