"""Ops that need sums of elements: normalisations, shares as of a softmax, and attention by its shares of the keys."""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from hypar.ops.base import LARGEST_SIZE, Facts, Op, Shape, Size, describe, fits, need
from hypar.ops.dims import CONTRACTED, MADE, READ, Names, OneName, prefixed
from hypar.ops.operands import Saved, Sum
from hypar.ops.tape import Var, product
from hypar.ops.windows import Routing

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hypar.ops.run import Run

CHANNELS, EPSILON = ("channels",), 1e-5
"""The dim of trained numbers of an image; what is added to every variance, as PyTorch does by default."""


class Norm(Op):
    """A normalisation of elements together to mean 0 and variance 1, then scaled and shifted by trained numbers.

    Statistics enter beside their values, which are taken as constants, through a factor of 1 and an offset of 0: the errors
    of both are the two sums from which that of the input follows.

    Attributes:
        centred: whether the mean is subtracted.
        channelwise: whether statistics lie as the trained numbers do, which are then part of factor and offset, so that the
            gradients of these, or what they would be, are the two sums.
        scale: whether there is a trained scale, which frameworks call weight.
        shift: whether there is a trained shift, which they call bias.
    """

    operations: ClassVar[int] = 5
    centred: ClassVar[bool] = True
    channelwise: ClassVar[bool] = False
    scale: bool = True
    shift: bool = True

    def _sums(self, shape: Shape, over: Collection[str], named: Collection[str], **together: int) -> Facts:
        """Return the sums over some dims, those of the error, and the gradients of the trained numbers of named dims.

        Of some dims of the sums so many indices beside each other as ``together`` says are normalised together.
        """
        kept = tuple(dim for dim in ("batch", *shape) if dim not in over)
        own = tuple(dim for dim in shape if dim in named)
        given = {"weight": self.scale, "bias": self.shift}
        trained = {name: {dim: dim for dim in own} for name, has in given.items() if has}
        forward = {name: Sum(kept, together=together) for name in ("sum", "square")[not self.centred :]}
        error = {name: Sum(kept, backward=True, together=together) for name in self.back}
        gradients = {name: Sum(own, backward=True) for name in trained}
        positions = math.prod(shape[dim] for dim in kept if dim != "batch")
        each = math.prod(together.values())
        saved = Saved(input=True, elements=(1 + self.centred) * positions // each)
        return {"trained": trained, "sums": forward | error | gradients, "saved": saved}

    @property
    def back(self) -> tuple[str, ...]:
        """The sums over the error: of the factor, and of the offset if there is one."""
        return ("weight", "bias") if self.channelwise else ("product", "error")[: 1 + self.centred]

    def value(self, run: Run) -> Var:
        """Return the normalised elements, scaled and shifted."""
        read = run.input()
        over = [dim for dim in read.dims if dim not in run.nest.sums["square"].dims]
        share = 1 / math.prod(run.nest.sizes[dim] for dim in over)
        sums = {"square": read * read, **({"sum": read} if self.centred else {})}
        means = {name: _grouped(run, run.total(name, own.sum(over))) * share for name, own in sums.items()}
        mean = means.get("sum", Var((), 0.0))
        inverse = Var((), 1.0) / (means["square"] - mean * mean + EPSILON).root()
        through = [inverse / inverse.constant(), (mean.constant() - mean) * inverse]
        trained = {name: run.parameter(name, shared=not self.channelwise) for name in run.nest.trained}
        if self.channelwise:
            through = _scaled(through, trained)
        shared = [run.shared(name, own) for name, own in zip(self.back, through, strict=False)]
        mean, inverse, factor, *offset = (
            _of_own(run, own) for own in (mean.constant(), inverse.constant(), *shared)
        )
        found = sum(offset, (read - mean) * inverse * factor)
        return found if self.channelwise else _scaled([found], trained)[0]


def _scaled(values: list[Var], trained: dict[str, Var]) -> list[Var]:
    """Return values scaled, and the last one shifted, by the numbers that are trained."""
    found = [own * trained["weight"] for own in values] if "weight" in trained else values
    return [*found[:-1], found[-1] + trained["bias"]] if "bias" in trained else found


def _grouped(run: Run, total: Var) -> Var:
    """Return the means of the sums of the channels of each one's group, where groups are normalised together."""
    if "every" not in total.dims:
        return total
    size, count = run.nest.sums["square"].together["channels"], run.nest.sizes["channels"]
    means = total.split("every", {"group": count // size, "member": size}).sum(["member"]) * (1 / size)
    return means.gather("group", np.arange(count) // size, ("every",))


def _of_own(run: Run, value: Var) -> Var:
    """Return the statistics of the channels that a piece has, of those of all."""
    return value.gather("every", run.index("channels"), CHANNELS) if "every" in value.dims else value


class LayerNorm(Norm):
    """Normalisation to mean 0 and variance 1 over some dims, with a trained scale and shift for each of their elements."""

    over: Names

    def _facts(self, shape: Shape) -> Facts:
        need(shape, self.over)
        return self._sums(shape, self.over, self.over)


class RmsNorm(LayerNorm):
    """Division by the root of the mean square over some dims, with a trained scale."""

    operations = 4
    centred = False
    shift: ClassVar[bool] = False  # type: ignore[misc]


class BatchNorm(Norm):
    """Normalisation of every channel; ``scale`` and ``shift`` are one trained number each for every channel."""

    operations = 2
    channelwise = True

    def _facts(self, shape: Shape) -> Facts:
        """Return the statistics of each channel, and that each phase first reads all samples for its sums, and then once more."""
        need(shape, CHANNELS)
        found = self._sums(shape, {"batch", *shape} - {*CHANNELS}, CHANNELS)
        numbers, elements = 2 * shape["channels"], math.prod(shape.values())
        saved = Saved(input=True, statistics=numbers)
        return {**found, "saved": saved, "untrained": numbers, "more": (elements, 2 * elements)}


class GroupNorm(Norm):
    """Normalisation of every group of neighbouring channels of a sample; ``scale`` and ``shift`` are one trained number each for every channel.

    Its statistics are sums of each channel, which are added up over a group where they are used: a device with some channels of
    a group, the ``members``, needs those of the others.

    Source: Wu and He, Group Normalization (ECCV 2018), section 3.
    """

    groups: Size

    def _facts(self, shape: Shape) -> Facts:
        need(shape, CHANNELS)
        size, rest = divmod(shape["channels"], self.groups)
        fits(rest == 0, [shape], f"channels that {self.groups} divides")
        return self._sums(shape, {*shape} - {*CHANNELS}, CHANNELS, channels=size)


class Softmax(Op):
    """``exp(x) / sum of exp(x)``: an exponential, an addition and a division an element.

    The largest x is not subtracted first, so that sums alone need all of a dim. Its derivative follows from its output.
    """

    operations = 3
    saved = Saved(output=True)
    over: Names = ("channels",)

    def _facts(self, shape: Shape) -> Facts:
        need(shape, self.over)
        kept = tuple(dim for dim in ("batch", *shape) if dim not in self.over)
        return {"sums": {"exponential": Sum(kept), "product": Sum(kept, backward=True)}}

    def _value(self, run: Run, read: Var) -> Var:
        return shares(run, read.exp(), self.over)


class CrossEntropy(Softmax):
    """A softmax whose mean cross-entropy against a label for each position is the loss.

    It gives the shares, of which the loss takes the label's; whichever device has it takes it, so that dividing the dim
    adds up one number for each position, as in Megatron-LM's vocabulary-parallel loss.
    """

    over: Names


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

    def _value(self, run: Run, read: Var) -> Var:
        """Return the shares of the scores to which a fixed routing sends each position, and 0 for the others."""
        (experts,) = self.over
        positions = next(dim for dim in read.dims[1:] if dim != experts)
        found = read.exp()
        value = found / (found + 1.0) if self.function == "sigmoid" else found
        dims, routing = ("batch", positions, experts), Routing(run.nest.sizes[experts], self.count)
        chosen = Var(dims, routing.chosen(*map(run.index, dims)))
        return shares(run, value * chosen, self.over)


def shares(run: Run, exponentials: Var, over: Sequence[str]) -> Var:
    """Return exponentials over their sums over some dims, which all devices with some of these share."""
    total = run.total("exponential", exponentials.sum(over))
    return exponentials * run.shared("product", Var((), 1.0) / total)


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


plugins: dict[str, type[Op]] = {
    "attention": Attention, "batch_norm": BatchNorm, "cross_entropy": CrossEntropy, "group_norm": GroupNorm,
    "layer_norm": LayerNorm, "rms_norm": RmsNorm, "softmax": Softmax, "top_k": TopK,
}  # fmt: skip
