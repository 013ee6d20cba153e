"""Shares, as of a softmax, and attention: each query's mean of the values, weighed by its shares of the keys."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.ops.base import LARGEST_SIZE, Facts, Op, Shape, describe, elements_of, fits, need
from hypar.ops.dims import CONTRACTED, MADE, READ, Names, prefixed
from hypar.ops.operands import Saved, Sum
from hypar.ops.tape import Var, product

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.ops.run import Run


class Softmax(Op):
    """``exp(x) / sum of exp(x)``: an exponential, an addition and a division an element.

    The largest x is not subtracted first, so that sums alone need all of a dim. Its derivative follows from its output.
    """

    operations = 3
    saved = Saved(output=True)
    over: Names = ("channels",)

    def _facts(self, shape: Shape) -> Facts:
        need(shape, self.over)
        return {"sums": sums_of(dim for dim in ("batch", *shape) if dim not in self.over)}

    def _exponentials(self, run: Run, read: Var) -> Var:  # noqa: ARG002
        """Return the numerators of the shares."""
        return read.exp()

    def _value(self, run: Run, read: Var) -> Var:
        found = self._exponentials(run, read)
        return found * divisors(run, found, [dim for dim in found.dims if dim in self.over])


class CrossEntropy(Softmax):
    """A softmax whose mean cross-entropy against a label for each position is the loss.

    It gives the shares, of which the loss takes the label's; whichever device has it takes it, so that dividing the dim
    adds up one number for each position, as in Megatron-LM's vocabulary-parallel loss.
    """

    over: Names


def sums_of(kept: Iterable[str]) -> dict[str, Sum]:
    """Return the sums over devices of shares, which have some dims."""
    dims = tuple(kept)
    return {"exponential": Sum(dims), "product": Sum(dims, backward=True)}


def divisors(run: Run, exponentials: Var, over: Sequence[str]) -> Var:
    """Return one over the sum of exponentials over some dims, which all devices with some of these share."""
    return run.shared("product", Var((), 1.0) / run.total("exponential", exponentials.sum(over)))


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
        rows, keys = _rows(inputs[0]), prefixed(CONTRACTED, {dim: inputs[1][dim] for dim in self.over})
        features = [prefixed(MADE if at == 2 else READ, _features(own)) for at, own in enumerate(inputs)]
        contracted = {dim: size for at in (0, 2, *asking[1:]) for dim, size in features[at][1].items()}
        by = [own if at in asking else {**own, **keys[0]} for at, (own, _) in enumerate(features)]
        num_rows, scores = elements_of(rows), elements_of(rows) * elements_of(keys[1])
        return {
            "loops": {**rows, **keys[1], **contracted},
            "read": [{**shape, **own} for shape, own in zip(inputs, by, strict=True)],
            "made": {**rows, **features[2][0]},
            "products": tuple(("batch", *rows, *keys[1], dim) for dim in contracted),
            "fraction": 0.5 if self.causal else 1.0,
            "whole": frozenset(contracted),
            "sums": sums_of(("batch", *rows)),
            "saved": Saved(input=True, output=self.flash, elements=num_rows if self.flash else scores),
            "more": (0, 0) if self.flash else (4 * scores, 7 * scores),
        }

    def _check(self, inputs: Sequence[Shape]) -> None:
        """Refuse inputs that do not fit."""
        for shape in inputs:
            need(shape, self.over)
        parts, (first, keys, values, *_) = _pairs(inputs), inputs
        for one, other in parts:
            self._fit(first, inputs[one], inputs[other])
        names = [dim for one, _ in parts for dim in _features(inputs[one])]
        found = f"features {', '.join(names)} of several parts"
        fits(len({*names}) == len(names), found, "a name for those of each")
        found = f"keys of {describe(keys)} and values of {describe(values)}"
        fits(_rows(keys) == _rows(values), found, "equal but for features")

    def _fit(self, first: Shape, queries: Shape, keys: Shape) -> None:
        """Refuse queries and keys of a part that do not fit each other, or the queries of the first part."""
        both, own = f"queries of {describe(queries)} and keys of {describe(keys)}", _features(queries)
        fits(_features(keys) == own and not {*own} & {*self.over}, both, "equal features last")
        shared = [dim for dim in _rows(keys) if dim not in self.over]
        fits(all(queries.get(dim) == keys[dim] for dim in shared), both, f"equal {', '.join(shared)}")
        alike = not self.causal or all(queries[dim] == keys[dim] for dim in self.over)
        fits(alike, "unlike positions of queries and keys", "equal ones if causal")
        both = f"queries of {describe(first)} and of {describe(queries)}"
        fits(_rows(queries) == _rows(first), both, "equal but for features")

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
            seen = _place(run, self.over) - _place(run, further)
            exponentials = exponentials * Var(seen.dims, seen.value >= 0)
        return product((exponentials * divisors(run, exponentials, further), read[2]), nest.result.dims)


def _pairs(inputs: Sequence[object]) -> tuple[tuple[int, int], ...]:
    """Return the numbers of the queries and the keys of each part of the features."""
    return ((0, 1), *((number, number + 1) for number in range(3, len(inputs), 2)))


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


plugins: dict[str, type[Op]] = {"attention": Attention, "cross_entropy": CrossEntropy, "softmax": Softmax}
