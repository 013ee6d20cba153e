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

    join: ClassVar[bool] = True
    operands: ClassVar[int] = 3
    statistics: ClassVar[tuple[str, ...]] = ("exponential",)
    back_statistics: ClassVar[tuple[str, ...]] = ("product",)
    over: Names = ("sequence",)
    causal: bool = False
    flash: bool = True

    @property
    def names_dims(self) -> bool:
        """Return that its dims are named."""
        return True

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the queries' shape, with the features of the values."""
        if len(inputs) < self.operands or len(inputs) % 2 == 0:
            raise ShapeError(
                f"found {len(inputs)} inputs; allowed: 3, the queries, the keys and the values, and pairs of further"
                " queries and keys"
            )
        queries, keys, values = inputs[: self.operands]
        for shape in inputs:
            require_dims(shape, self.over)
        features, made = tuple(queries)[-1], tuple(values)[-1]
        for part in self.parts(inputs):
            self._fit(queries, *part)
        parts = [tuple(part)[-1] for part, _ in self.parts(inputs)]
        if len({*parts}) < len(parts):
            raise ShapeError(
                f"found features {', '.join(parts)} of several parts; allowed: a name for those of each"
            )
        if {dim: size for dim, size in keys.items() if dim != features} != {
            dim: size for dim, size in values.items() if dim != made
        }:
            raise ShapeError(
                f"found keys of {describe(keys)} and values of {describe(values)}; allowed: equal but for features"
            )
        return {**{dim: size for dim, size in queries.items() if dim != features}, made: values[made]}

    def parts(self, inputs: tuple[Shape, ...]) -> tuple[tuple[Shape, Shape], ...]:
        """Return the queries and the keys of each part."""
        (first, second, _), further = inputs[: self.operands], inputs[self.operands :]
        return ((first, second), *zip(further[::2], further[1::2], strict=True))

    def _fit(self, first: Shape, queries: Shape, keys: Shape) -> None:
        """Check the queries and the keys of a part against the queries of the first one.

        Raises:
            ShapeError: they do not fit.
        """
        features = tuple(queries)[-1]
        if features in self.over or tuple(keys)[-1] != features or keys[features] != queries[features]:
            raise ShapeError(
                f"found queries of {describe(queries)} and keys of {describe(keys)}; allowed: equal features last"
            )
        shared = [dim for dim in keys if dim not in (*self.over, features)]
        if any(queries.get(dim) != keys[dim] for dim in shared):
            raise ShapeError(
                f"found queries of {describe(queries)} and keys of {describe(keys)}; allowed: equal {', '.join(shared)}"
            )
        if self.causal and any(queries[dim] != keys[dim] for dim in self.over):
            raise ShapeError("found unlike positions of queries and keys; allowed: equal ones if causal")
        if {dim: size for dim, size in queries.items() if dim != features} != {
            dim: size for dim, size in first.items() if dim != tuple(first)[-1]
        }:
            raise ShapeError(
                f"found queries of {describe(first)} and of {describe(queries)}; allowed: equal but for features"
            )

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:
        """Return ``S[n,k,g,q,t] = Q[n,k,g,q,d] . K[n,k,t,d]`` and ``O[n,k,g,q,e] = softmax(S)[n,k,g,q,t] . V[n,k,t,e]``.

        Each further part has a product ``S``, to which it is added.
        """
        queries, keys, values = inputs[: self.operands]
        *positions, features = queries
        made = tuple(output)[-1]
        read, left = f"{READ}{features}", f"{MADE}{made}"
        further = {f"{CONTRACTED}{dim}": dim for dim in self.over}
        free = {"batch": "batch", **{dim: dim for dim in positions}}
        scores = (*free, *further)

        def read_by_keys(shape: Shape, **own: str) -> dict[str, str]:
            shared = {dim: dim for dim in tuple(shape)[:-1] if dim not in self.over}
            return {"batch": "batch", **shared, **further, **own}

        more = {f"{READ}{tuple(other)[-1]}": (other, theirs) for other, theirs in self.parts(inputs)[1:]}
        return Einsum(
            sizes={
                "batch": batch,
                **{dim: queries[dim] for dim in positions},
                **{dim: keys[own] for dim, own in further.items()},
                read: queries[features],
                left: values[made],
                **{dim: tuple(other.values())[-1] for dim, (other, _) in more.items()},
            },
            input={**free, read: features},
            weight=(),
            output={**free, left: made},
            input_elements=batch * math.prod(queries.values()),
            others=(
                read_by_keys(keys, **{read: features}),
                read_by_keys(values, **{left: made}),
                *(
                    own
                    for dim, (other, theirs) in more.items()
                    for own in (
                        {**free, dim: tuple(other)[-1]},
                        read_by_keys(theirs, **{dim: tuple(theirs)[-1]}),
                    )
                ),
            ),
            products=((*scores, read), (*scores, left), *((*scores, dim) for dim in more)),
            fraction=0.5 if self.causal else 1.0,
            whole=frozenset({read, left, *more}),
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
        queries, keys = inputs[:2]
        rows = math.prod(size for dim, size in queries.items() if dim != tuple(queries)[-1])
        return rows, rows * math.prod(keys[dim] for dim in self.over)


plugin: type[Op] = Attention
