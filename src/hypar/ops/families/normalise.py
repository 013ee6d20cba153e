"""Ops that need sums of elements: normalisations and shares."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import ClassVar, Literal

from hypar.ops.base import Facts, Op, Shape, Size, need
from hypar.ops.dims import Names, OneName
from hypar.ops.nest import Saved, Sum
from hypar.ops.run import Run, chosen, shares
from hypar.ops.tape import Var, product
from hypar.ops.windows import fits

CHANNELS, EPSILON = ("channels",), 1e-5
"""The dim of trained numbers of an image; what is added to every variance, as PyTorch does by default."""


class Norm(Op):
    """A normalisation of elements together to mean 0 and variance 1, then scaled and shifted by trained numbers.

    Statistics enter beside their values, which are taken as constants, through a factor of 1 and an offset of 0: the errors
    of both are the two sums from which that of the input follows.

    Attributes:
        centred: whether the mean is subtracted.
        back: the sums over the error, of the factor and of the offset: of statistics that lie as the trained numbers do, which
            are then part of these, the gradients of ``weight`` and ``bias``, or what they would be.
        scale: whether there is a trained scale, which frameworks call weight.
        shift: whether there is a trained shift, which they call bias.
    """

    operations: ClassVar[int] = 5
    centred: ClassVar[bool] = True
    back: ClassVar[tuple[str, ...]] = ("product", "error")
    scale: bool = True
    shift: bool = True

    def _sums(self, shape: Shape, over: Collection[str], named: Collection[str], **together: int) -> Facts:
        """Return the sums over some dims, those of the error, and the gradients of the trained numbers of named dims.

        Of some dims of the sums so many indices beside each other as ``together`` says are normalised together.
        """
        need(shape, named)
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

    def value(self, run: Run) -> Var:
        """Return the normalised elements, scaled and shifted."""
        read, own, channelwise = run.read("input"), run.nest.sums["square"], "weight" in self.back
        over = [dim for dim in read.dims if dim not in own.dims]
        share = 1 / math.prod([*(run.nest.sizes[dim] for dim in over), *own.together.values()])
        square = run.total("square", product((read, read), own.dims)) * share
        mean = run.total("sum", read.sum(over)) * share if self.centred else Var((), 0.0)
        variance = square - mean * mean + EPSILON
        inverse = variance.map(lambda own: own**-0.5, lambda own: -0.5 * own**-1.5)
        weight, bias = (
            run.read(name, shared=not channelwise) if name in run.nest.trained else Var((), without)
            for name, without in (("weight", 1.0), ("bias", 0.0))
        )
        through = [inverse / inverse.constant(), (mean.constant() - mean) * inverse]
        if channelwise:
            through = [through[0] * weight, through[1] * weight + bias]
        factor, *offset = (run.shared(name, own) for name, own in zip(self.back, through, strict=False))
        found = sum(offset, (read - mean.constant()) * (inverse.constant() * factor))
        return found if channelwise else found * weight + bias


class LayerNorm(Norm):
    """Normalisation to mean 0 and variance 1 over some dims, with a trained scale and shift for each of their elements."""

    over: Names

    def _facts(self, shape: Shape) -> Facts:
        return self._sums(shape, self.over, self.over)


class RmsNorm(LayerNorm):
    """Division by the root of the mean square over some dims, with a trained scale."""

    operations = 4
    centred = False
    back = ("product",)
    shift: ClassVar[bool] = False  # type: ignore[misc]


class BatchNorm(Norm):
    """Normalisation of every channel; ``scale`` and ``shift`` are one trained number each for every channel."""

    operations = 2
    back = ("weight", "bias")

    def _facts(self, shape: Shape) -> Facts:
        """Return the statistics of each channel, and that each phase first reads all samples for its sums, and then once more."""
        found = self._sums(shape, {"batch", *shape} - {*CHANNELS}, CHANNELS)
        numbers, elements = 2 * shape["channels"], math.prod(shape.values())
        found["saved"] = Saved(input=True, statistics=numbers)
        return {**found, "more": (elements, 2 * elements)}


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
        (size, rest), best = divmod(most, self.groups), self.groups if self.best is None else self.best
        within = not rest and best <= self.groups and self.count <= best * size
        asked = f"count {self.count} of the best {best} of {self.groups} groups of {most} {self.over[0]}"
        fits(within, asked, "groups of equal size, as many and as large as the count needs")
        return found

    def _value(self, run: Run, read: Var) -> Var:
        (experts,) = self.over
        positions = next(dim for dim in read.dims[1:] if dim != experts)
        found = read.exp()
        value = found / (found + 1.0) if self.function == "sigmoid" else found
        return shares(run, value * chosen(run, run.place(positions), experts, self.count), self.over)


plugins: dict[str, type[Op]] = {
    "batch_norm": BatchNorm, "cross_entropy": CrossEntropy, "group_norm": GroupNorm, "layer_norm": LayerNorm,
    "rms_norm": RmsNorm, "softmax": Softmax, "top_k": TopK,
}  # fmt: skip
