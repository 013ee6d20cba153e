"""Normalisations of elements by their mean and their variance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hypar.ops.base import Facts, Op, Shape, Size, elements_of, fits, need
from hypar.ops.dims import Names
from hypar.ops.operands import Saved, Sum
from hypar.ops.tape import Var, product

if TYPE_CHECKING:
    from collections.abc import Collection

    from hypar.ops.run import Run

EPSILON = 1e-5
"""Added to every variance, as PyTorch does by default."""


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

    @property
    def named(self) -> Names:
        """The dims of the trained numbers."""
        return ("channels",)

    def summed(self, shape: Shape) -> Collection[str]:
        """Return the dims that its statistics are sums over: the places of a sample."""
        return {*shape} - {*self.named}

    def members(self, shape: Shape) -> dict[str, int]:  # noqa: ARG002
        """Return of some dims of its statistics how many indices beside each other are normalised together."""
        return {}

    def _facts(self, shape: Shape) -> Facts:
        """Return the sums of each position, those of the error, and the gradients of the trained numbers."""
        need(shape, self.named)
        over, together = self.summed(shape), self.members(shape)
        kept = tuple(dim for dim in ("batch", *shape) if dim not in over)
        own = tuple(dim for dim in shape if dim in self.named)
        given = {"weight": self.scale, "bias": self.shift}
        trained = {name: {dim: dim for dim in own} for name, has in given.items() if has}
        forward = {name: Sum(kept, together=together) for name in ("sum", "square")[not self.centred :]}
        error = {name: Sum(kept, backward=True, together=together) for name in self.back}
        gradients = {name: Sum(own, backward=True) for name in trained}
        positions = math.prod(shape[dim] for dim in kept if dim != "batch")
        each = math.prod(together.values())
        return {
            "trained": trained,
            "start": 1.0,
            "sums": forward | error | gradients,
            "saved": Saved(input=True, elements=(1 + self.centred) * positions // each),
        }

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
    """Return the means of the sums of the channels of each member's group, where groups are normalised together."""
    if "members" not in total.dims:
        return total
    size = run.nest.sums["square"].together["channels"]
    groups = run.members("channels", size) // size
    same = Var(("members", "group"), (groups[:, None] == groups) / size)
    return product((total, same), ("batch", "group")).renamed(group="members")


def _of_own(run: Run, value: Var) -> Var:
    """Return the statistics of the channels that a piece has, of those of the members of their groups."""
    if "members" not in value.dims:
        return value
    every = run.members("channels", run.nest.sums["square"].together["channels"])
    return value.gather("members", np.searchsorted(every, run.index("channels")), ("channels",))


class LayerNorm(Norm):
    """Normalisation to mean 0 and variance 1 over some dims, with a trained scale and shift for each of their elements."""

    over: Names

    @property
    def named(self) -> Names:
        """The dims that it normalises over."""
        return self.over

    def summed(self, shape: Shape) -> Collection[str]:  # noqa: ARG002
        """Return these dims."""
        return self.over


class RmsNorm(LayerNorm):
    """Division by the root of the mean square over some dims, with a trained scale."""

    operations = 4
    centred = False
    shift: ClassVar[bool] = False  # type: ignore[misc]


class BatchNorm(Norm):
    """Normalisation of every channel; ``scale`` and ``shift`` are one trained number each for every channel."""

    operations = 2
    channelwise = True

    def summed(self, shape: Shape) -> Collection[str]:
        """Return the samples and their places."""
        return {"batch", *super().summed(shape)}

    def _facts(self, shape: Shape) -> Facts:
        """Return the statistics of each channel, and that each phase first reads all samples for its sums, and then once more."""
        found, numbers, elements = super()._facts(shape), 2 * shape["channels"], elements_of(shape)
        saved = Saved(input=True, statistics=numbers)
        return {**found, "saved": saved, "untrained": numbers, "more": (elements, 2 * elements)}


class GroupNorm(Norm):
    """Normalisation of every group of neighbouring channels of a sample; ``scale`` and ``shift`` are one trained number each for every channel.

    Its statistics are sums of each channel, which are added up over a group where they are used: a device with some channels of
    a group, the ``members``, needs those of the others.

    Source: Wu and He, Group Normalization (ECCV 2018), section 3.
    """

    groups: Size

    def members(self, shape: Shape) -> dict[str, int]:
        """Return the channels of a group."""
        size, rest = divmod(shape["channels"], self.groups)
        fits(rest == 0, [shape], f"channels that {self.groups} divides")
        return {"channels": size}


plugins: dict[str, type[Op]] = {
    "batch_norm": BatchNorm, "group_norm": GroupNorm, "layer_norm": LayerNorm, "rms_norm": RmsNorm,
}  # fmt: skip
