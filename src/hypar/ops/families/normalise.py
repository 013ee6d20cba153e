"""Ops that need sums of elements: normalisations and shares."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from hypar.ops.base import Op, Shape, Size, describe, elements_of, one_input, require_dims, same_shape
from hypar.ops.dims import Names, OneName
from hypar.ops.operands import Saved, Sum
from hypar.ops.tape import Var, product
from hypar.ops.windows import Routing, ShapeError

if TYPE_CHECKING:
    from hypar.ops.nest import Nest
    from hypar.ops.run import Run

EPSILON = 1e-5
"""Added to every variance, as PyTorch does by default."""


class Norm(Op):
    """A normalisation of elements together to mean 0 and variance 1, then scaled and shifted by trained numbers.

    Statistics enter beside their values, which are taken as constants, through a factor of 1 and an offset of 0: the errors
    of both are the two sums from which that of the input follows.

    Attributes:
        operations: floating-point operations an element.
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

    def summed(self, shape: Shape) -> tuple[str, ...]:
        """Return the dims that its statistics are sums over, in the order of the input."""
        raise NotImplementedError

    def members(self, shape: Shape) -> dict[str, int]:  # noqa: ARG002
        """Return of some dims of its statistics how many indices beside each other are normalised together."""
        return {}

    def memory(self, shape: Shape) -> dict[str, Any]:
        """Return what it keeps: its input, and the statistics of each position."""
        positions = math.prod(size for dim, size in shape.items() if dim not in self.summed(shape))
        each = math.prod(self.members(shape).values())
        return {"saved": Saved(input=True, elements=(1 + self.centred) * positions // each)}

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return the sums of each position, those of the error, and the gradients of the trained numbers."""
        shape = one_input(inputs, *self.named())
        over, together = self.summed(shape), self.members(shape)
        kept = tuple(dim for dim in ("batch", *shape) if dim not in over)
        own = tuple(dim for dim in shape if dim in (self.named() or ("channels",)))
        given = {"weight": self.scale, "bias": self.shift}
        trained = {name: {dim: dim for dim in own} for name, has in given.items() if has}
        forward = {name: Sum(kept, together=together) for name in ("sum", "square")[not self.centred :]}
        error = {name: Sum(kept, backward=True, together=together) for name in self.back}
        gradients = {name: Sum(own, backward=True) for name in trained}
        sums, operations = forward | error | gradients, self.operations * elements_of(shape)
        facts = {"trained": trained, "start": 1.0, **self.memory(shape)}
        return same_shape(batch, inputs, sums=sums, operations=operations, **facts)

    def named(self) -> Names:
        """Return the dims that it names."""
        return ()

    @property
    def back(self) -> tuple[str, ...]:
        """The sums over the error: of the factor, and of the offset if there is one."""
        return ("weight", "bias") if self.channelwise else ("product", "error")[: 1 + self.centred]

    def value(self, run: Run) -> Var:
        """Return the normalised elements, scaled and shifted."""
        read = run.input()
        over = [dim for dim in read.dims if dim not in run.nest.sums["square"].dims]
        count = math.prod(run.nest.sizes[dim] for dim in over)
        sums = {"square": read * read, **({"sum": read} if self.centred else {})}
        means = {
            name: self.grouped(run, run.total(name, own.sum(over))) * (1 / count)
            for name, own in sums.items()
        }
        mean = means.get("sum", Var((), 0.0))
        inverse = Var((), 1.0) / (means["square"] - mean * mean + EPSILON).root()
        through = [inverse / inverse.constant(), (mean.constant() - mean) * inverse]
        trained = {name: run.parameter(name, shared=not self.channelwise) for name in run.nest.trained}
        if self.channelwise:
            through = self.scaled(through, trained)
        factor, *offset = (run.shared(name, own) for name, own in zip(self.back, through, strict=False))
        plain = (read - self.of_own(run, mean.constant())) * self.of_own(run, inverse.constant())
        found = plain * self.of_own(run, factor)
        found = found + self.of_own(run, offset[0]) if offset else found
        return found if self.channelwise else self.scaled([found], trained)[0]

    @staticmethod
    def scaled(values: list[Var], trained: dict[str, Var]) -> list[Var]:
        """Return values scaled, and the last one shifted, by the numbers that are trained."""
        found = [own * trained["weight"] for own in values] if "weight" in trained else values
        return [*found[:-1], found[-1] + trained["bias"]] if "bias" in trained else found

    def grouped(self, run: Run, total: Var) -> Var:  # noqa: ARG002
        """Return sums of what is normalised together."""
        return total

    def of_own(self, run: Run, value: Var) -> Var:  # noqa: ARG002
        """Return statistics of the indices that a piece has."""
        return value


class LayerNorm(Norm):
    """Normalisation to mean 0 and variance 1 over some dims, with a trained scale and shift for each of their elements."""

    over: Names

    def named(self) -> Names:
        """Return the dims that it normalises over."""
        return self.over

    def summed(self, shape: Shape) -> tuple[str, ...]:
        """Return these dims, in the order of the input."""
        return tuple(dim for dim in shape if dim in self.named())


class RmsNorm(LayerNorm):
    """Division by the root of the mean square over some dims, with a trained scale."""

    operations: ClassVar[int] = 4
    centred: ClassVar[bool] = False
    shift: ClassVar[bool] = False  # type: ignore[misc]


class BatchNorm(Norm):
    """Normalisation of every channel; ``scale`` and ``shift`` are one trained number each for every channel."""

    operations: ClassVar[int] = 2
    channelwise: ClassVar[bool] = True

    def summed(self, shape: Shape) -> tuple[str, ...]:
        """Return the samples and their places."""
        return ("batch", *(dim for dim in shape if dim != "channels"))

    def memory(self, shape: Shape) -> dict[str, Any]:
        """Return the statistics of each channel, and that each phase first reads all samples for its sums, and then once more."""
        numbers, elements = 2 * shape["channels"], elements_of(shape)
        saved = Saved(input=True, statistics=numbers)
        return {"saved": saved, "untrained": numbers, "more": (elements, 2 * elements)}


class GroupNorm(Norm):
    """Normalisation of every group of neighbouring channels of a sample; ``scale`` and ``shift`` are one trained number each for every channel.

    Its statistics are sums of each channel, which are added up over a group where they are used: a device with some channels of
    a group, the ``members``, needs those of the others.

    Source: Wu and He, Group Normalization (ECCV 2018), section 3.
    """

    groups: Size

    def summed(self, shape: Shape) -> tuple[str, ...]:
        """Return the places of a sample."""
        return tuple(dim for dim in shape if dim != "channels")

    def members(self, shape: Shape) -> dict[str, int]:
        """Return the channels of a group."""
        require_dims(shape, ("channels",))
        if shape["channels"] % self.groups:
            raise ShapeError(
                f"found an input of {describe(shape)}; allowed: channels that {self.groups} divides"
            )
        return {"channels": shape["channels"] // self.groups}

    def grouped(self, run: Run, total: Var) -> Var:
        """Return the means of the sums of the channels of each member's group."""
        size = run.nest.sizes["channels"] // self.groups
        groups = run.members("channels", size) // size
        same = Var(("members", "group"), (groups[:, None] == groups) / size)
        return product((total, same), ("batch", "group")).renamed(group="members")

    def of_own(self, run: Run, value: Var) -> Var:
        """Return the statistics of the channels that a piece has."""
        own = run.index("channels")
        every = run.members("channels", run.nest.sizes["channels"] // self.groups)
        return value.gather("members", np.searchsorted(every, own), ("channels",))


class Softmax(Op):
    """``exp(x) / sum of exp(x)``: an exponential, an addition and a division an element.

    The largest x is not subtracted first, so that sums alone need all of a dim.
    """

    over: Names = ("channels",)

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return that it keeps its output, from which its derivative follows."""
        shape = one_input(inputs, *self.over)
        kept = tuple(dim for dim in ("batch", *shape) if dim not in self.over)
        sums = {"exponential": Sum(kept), "product": Sum(kept, backward=True)}
        return same_shape(
            batch, inputs, sums=sums, saved=Saved(output=True), operations=3 * elements_of(shape)
        )

    def exponentials(self, run: Run, read: Var) -> Var:  # noqa: ARG002
        """Return the numerators of the shares."""
        return read.exp()

    def value(self, run: Run) -> Var:
        """Return the numerators over their sums."""
        found = self.exponentials(run, run.input())
        total = run.total("exponential", found.sum([dim for dim in found.dims if dim in self.over]))
        return found * run.shared("product", Var((), 1.0) / total)


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

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return the nest of a softmax."""
        found, shape = super().nest(batch, inputs), inputs[0]
        most = shape[self.over[0]]
        if self.count > most:
            raise ShapeError(f"found count {self.count} for {describe(shape)}; allowed: at most {most}")
        best = self.groups if self.best is None else self.best
        if most % self.groups or best > self.groups or self.count > best * (most // self.groups):
            raise ShapeError(
                f"found count {self.count} of the best {best} of {self.groups} groups of {most} {self.over[0]};"
                " allowed: groups of equal size, as many and as large as the count needs"
            )
        return found

    def exponentials(self, run: Run, read: Var) -> Var:
        """Return the function of the scores to which a fixed routing sends each position, and 0 for the others."""
        (experts,) = self.over
        positions = next(dim for dim in read.dims[1:] if dim != experts)
        routing = Routing(run.nest.sizes[experts], self.count)
        chosen = routing.chosen(*(run.index(dim) for dim in ("batch", positions, experts)))
        found = read.exp()
        value = found / (found + 1.0) if self.function == "sigmoid" else found
        return value * Var(("batch", positions, experts), chosen)


plugins: dict[str, type[Op]] = {
    "batch_norm": BatchNorm, "cross_entropy": CrossEntropy, "group_norm": GroupNorm, "layer_norm": LayerNorm,
    "rms_norm": RmsNorm, "softmax": Softmax, "top_k": TopK,
}  # fmt: skip
