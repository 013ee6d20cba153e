"""Attention: each query's mean of the values, weighed by a softmax over the keys."""

from __future__ import annotations

import math
from typing import ClassVar

from hypar.network.dims import CONTRACTED, MADE, READ
from hypar.network.einsum import Einsum
from hypar.network.keeping import Keeps, Traffic
from hypar.network.named import Names
from hypar.network.ops.base import Op, Shape, describe, require_dims
from hypar.network.windows import ShapeError


class Attention(Op):
    """``softmax(Q K' / sqrt(d)) V`` of three inputs, the queries, the keys and the values.

    All three have the dims ``over`` that are attended over, and features as their last dim. The other dims of the keys,
    as ``kv_heads``, are those of the queries; dims that the queries alone have, as ``group``, share keys and values.

    Attributes:
        over: the dims of the positions.
        causal: whether a query sees the keys up to its own position alone, which halves the operations.
        flash: whether scores are neither kept nor moved between memory and device.
    """

    join: ClassVar[bool] = True
    operands: ClassVar[int] = 3
    over: Names = ("sequence",)
    causal: bool = False
    flash: bool = True

    @property
    def names_dims(self) -> bool:
        """Return that its dims are named."""
        return True

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the queries' shape, with the features of the values."""
        if len(inputs) != self.operands:
            raise ShapeError(f"found {len(inputs)} inputs; allowed: 3, the queries, the keys and the values")
        queries, keys, values = inputs
        for shape in inputs:
            require_dims(shape, self.over)
        features, made = tuple(queries)[-1], tuple(values)[-1]
        if features in self.over or tuple(keys)[-1] != features or keys[features] != queries[features]:
            raise ShapeError(
                f"found queries of {describe(queries)} and keys of {describe(keys)}; allowed: equal features last"
            )
        if {dim: size for dim, size in keys.items() if dim != features} != {
            dim: size for dim, size in values.items() if dim != made
        }:
            raise ShapeError(
                f"found keys of {describe(keys)} and values of {describe(values)}; allowed: equal but for features"
            )
        shared = [dim for dim in keys if dim not in (*self.over, features)]
        if any(queries.get(dim) != keys[dim] for dim in shared):
            raise ShapeError(
                f"found queries of {describe(queries)} and keys of {describe(keys)}; allowed: equal {', '.join(shared)}"
            )
        if self.causal and any(queries[dim] != keys[dim] for dim in self.over):
            raise ShapeError("found unlike positions of queries and keys; allowed: equal ones if causal")
        return {**{dim: size for dim, size in queries.items() if dim != features}, made: values[made]}

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:
        """Return ``S[n,k,g,q,t] = Q[n,k,g,q,d] . K[n,k,t,d]`` and ``O[n,k,g,q,e] = softmax(S)[n,k,g,q,t] . V[n,k,t,e]``."""
        queries, keys, values = inputs
        *positions, features = queries
        made = tuple(output)[-1]
        read, left = f"{READ}{features}", f"{MADE}{made}"
        further = {f"{CONTRACTED}{dim}": dim for dim in self.over}
        shared = {dim: dim for dim in keys if dim not in (*self.over, features)}
        free = {"batch": "batch", **{dim: dim for dim in positions}}
        scores = (*free, *further)
        return Einsum(
            sizes={
                "batch": batch,
                **{dim: queries[dim] for dim in positions},
                **{dim: keys[own] for dim, own in further.items()},
                read: queries[features],
                left: values[made],
            },
            input={**free, read: features},
            weight=(),
            output={**free, left: made},
            input_elements=batch * math.prod(queries.values()),
            others=(
                {"batch": "batch", **shared, **further, read: features},
                {"batch": "batch", **shared, **further, left: made},
            ),
            products=((*scores, read), (*scores, left)),
            fraction=0.5 if self.causal else 1.0,
            whole=frozenset({*further, read, left}),
        )

    def unweighted_flop(self, inputs: tuple[Shape, ...]) -> int:
        """Return the operations of both products on one sample."""
        return self.einsum(1, inputs, self.output_shape(inputs)).flop("forward")

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:
        """Return its inputs, its output and a sum for each query; without ``flash`` the scores' softmax instead of these."""
        rows, scores = self._rows(inputs)
        if self.flash:
            return Keeps(input=True, output=True, elements=rows)
        return Keeps(input=True, elements=scores)

    def traffic(self, inputs: tuple[Shape, ...]) -> Traffic:
        """Return what it reads and writes besides its products' tensors: without ``flash`` the scores.

        Forward one product writes them, the softmax reads and writes them, and the other product reads them. Backward the
        error of the softmax is written and read, with the softmax twice, and that of the scores is written and read twice.
        """
        _, scores = self._rows(inputs)
        return Traffic() if self.flash else Traffic(forward=4 * scores, backward=7 * scores)

    def _rows(self, inputs: tuple[Shape, ...]) -> tuple[int, int]:
        """Return the queries of all heads and their scores, for one sample."""
        queries, keys, _ = inputs
        rows = math.prod(size for dim, size in queries.items() if dim != tuple(queries)[-1])
        return rows, rows * math.prod(keys[dim] for dim in self.over)


plugin: type[Op] = Attention
