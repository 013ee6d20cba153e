"""Group normalisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hypar.network.keeping import Keeps
from hypar.network.ops.base import Op, Shape, Size, describe, one_input, require_dims
from hypar.network.windows import ShapeError

if TYPE_CHECKING:
    from collections.abc import Mapping

SPATIAL = frozenset({"depth", "height", "width"})


class GroupNorm(Op):
    """Normalisation of every group of neighbouring channels of a sample; ``scale`` and ``shift`` are one trained number each for every channel.

    Its statistics are sums of each channel, which are added up over a group where they are used: a device with some channels of
    a group needs those of the others.

    Source: Wu and He, Group Normalization (ECCV 2018), section 3.
    """

    flop_per_element: ClassVar[int] = 5
    statistics: ClassVar[tuple[str, ...]] = ("sum", "square")
    statistics_over: ClassVar[frozenset[str]] = SPATIAL
    groups: Size
    scale: bool = True
    shift: bool = True

    @property
    def trained(self) -> tuple[str, ...]:
        """The scale, which frameworks call weight, and the shift, which they call bias."""
        return ("weight",) * self.scale + ("bias",) * self.shift

    @property
    def back_statistics(self) -> tuple[str, ...]:  # type: ignore[override]
        """The sums of the error and of its product with the normalised input; gradients of trained tensors."""
        return ("error", "product", *self.trained)

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the input's shape."""
        shape = one_input(inputs)
        require_dims(shape, ("channels",))
        if shape["channels"] % self.groups:
            raise ShapeError(
                f"found an input of {describe(shape)}; allowed: channels that {self.groups} divides"
            )
        return shape

    def reduced(self, name: str, shape: Shape) -> frozenset[str]:  # noqa: ARG002
        """Return the dims that a sum runs over: the image's, and for the gradient of a trained tensor the batch."""
        return SPATIAL | {"batch"} if name in self.trained else SPATIAL

    def together_in(self, shape: Shape) -> Mapping[str, int]:
        """Return the channels of a group."""
        return {"channels": shape["channels"] // self.groups}

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:
        """Return the number of trained scales and shifts."""
        return sum(self.parameters(inputs).values())

    def parameters(self, inputs: tuple[Shape, ...]) -> Mapping[str, int]:
        """Return the elements of each trained tensor."""
        return dict.fromkeys(self.trained, one_input(inputs)["channels"])

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:  # noqa: ARG002
        """Return that it keeps its input, and the mean and the deviation of each group."""
        return Keeps(input=True, elements=len(self.statistics) * self.groups)


plugin: type[Op] = GroupNorm
