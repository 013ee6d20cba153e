"""Product of a tensor with one of fewer dims, as the gates of squeeze-and-excitation."""

from __future__ import annotations

import math
from typing import ClassVar

from hypar.network.dims import CONTRACTED
from hypar.network.einsum import Einsum
from hypar.network.keeping import Keeps
from hypar.network.ops.base import Op, Shape, describe, elements_of
from hypar.network.windows import ShapeError


class Scale(Op):
    """``F_out[n,p,q] = F_1[n,p,q] F_2[n,p]``: each element of the first input times the one of the second at its place.

    The dims of the second input are some of those of the first, each of the same size or of size 1.

    Source: Hu and others, Squeeze-and-Excitation Networks (CVPR 2018), section 3.
    """

    join: ClassVar[bool] = True
    operands: ClassVar[int] = 2

    @property
    def names_dims(self) -> bool:
        """Return that the dims of each input are named."""
        return True

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the shape of the first input."""
        if len(inputs) != self.operands:
            raise ShapeError(f"found {len(inputs)} inputs; allowed: 2")
        one, two = inputs
        if any(size not in (1, one.get(dim)) or dim not in one for dim, size in two.items()):
            raise ShapeError(
                f"found {describe(one)} and {describe(two)};"
                " allowed: dims of the first input in the second, of the same size or of size 1"
            )
        return one

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:
        """Return the product over the first input's dims; a dim of size 1 of the second is one of its own."""
        own = {"batch": "batch", **{dim: dim for dim in output}}
        further = {
            dim if size == output[dim] else f"{CONTRACTED}{dim}": dim for dim, size in inputs[1].items()
        }
        single = {dim: 1 for dim in further if dim not in own}
        sizes = {"batch": batch, **output, **single}
        return Einsum(
            sizes=sizes,
            input=own,
            weight=(),
            output=own,
            input_elements=batch * math.prod(output.values()),
            others=({"batch": "batch", **further},),
            products=(tuple(sizes),),
            fraction=0.0,
            whole=frozenset(single),
        )

    def unweighted_flop(self, inputs: tuple[Shape, ...]) -> int:
        """Return one operation for each element of the first input."""
        return elements_of(inputs[0])

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:  # noqa: ARG002
        """Return that it keeps its inputs, each of which is a factor of the other's error."""
        return Keeps(input=True)


plugin: type[Op] = Scale
