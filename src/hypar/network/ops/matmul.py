"""Product of two activations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from hypar.network.dims import CONTRACTED
from hypar.network.einsum import Einsum
from hypar.network.keeping import Keeps
from hypar.network.named import Pairs
from hypar.network.ops.base import Op, Shape, describe, require_dims
from hypar.network.windows import ShapeError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Matmul(Op):
    """``F_out[p,i,j] = F_1[p,i,k] . F_2[p,j,k]``: a sum over the dims ``over``, at each position of dims that both have.

    ``over`` names the dims that are contracted, or maps those of the first input to those of the second. ``names`` renames
    dims of the second input, where the first has other positions under the same name.
    """

    join: ClassVar[bool] = True
    operands: ClassVar[int] = 2
    over: Pairs
    names: Pairs | None = None

    @property
    def names_dims(self) -> bool:
        """Return that its dims are named."""
        return True

    @property
    def contracted(self) -> Mapping[str, str]:
        """The dims of the first input that are contracted, with those of the second."""
        return dict(self.over)

    @property
    def renamed(self) -> Mapping[str, str]:
        """The names in the product of dims of the second input."""
        return dict(self.names or ())

    def second(self, shape: Shape) -> Mapping[str, int]:
        """Return the second input's dims under the names that they have in the product."""
        back = {theirs: f"{CONTRACTED}{own}" for own, theirs in self.contracted.items()}
        return {back.get(dim) or self.renamed.get(dim, dim): size for dim, size in shape.items()}

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the dims of the first input and those that the second alone has, without those that are contracted."""
        if len(inputs) != self.operands:
            raise ShapeError(f"found {len(inputs)} inputs; allowed: 2")
        one, two = inputs
        require_dims(one, self.contracted)
        require_dims(two, [*self.contracted.values(), *self.renamed])
        renamed = self.second(two)
        unlike = [dim for dim in one if dim not in self.contracted and renamed.get(dim, one[dim]) != one[dim]]
        unlike += [own for own, theirs in self.contracted.items() if one[own] != two[theirs]]
        if unlike:
            found = f"{describe(one)} and {describe(two)}"
            raise ShapeError(f"found {found}; allowed: equal {', '.join(unlike)}, or names for the second's")
        kept = {dim: size for dim, size in one.items() if dim not in self.contracted}
        return {**kept, **{dim: size for dim, size in renamed.items() if not dim.startswith(CONTRACTED)}}

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:
        """Return the product over named dims."""
        one, two = inputs
        free = {dim: dim for dim in one if dim not in self.contracted}
        contracted = {f"{CONTRACTED}{dim}": dim for dim in self.contracted}
        further = dict(zip(self.second(two), two, strict=True))
        sizes = {"batch": batch, **output, **{dim: one[own] for dim, own in contracted.items()}}
        return Einsum(
            sizes=sizes,
            input={"batch": "batch", **free, **contracted},
            weight=(),
            output={"batch": "batch", **{dim: dim for dim in output}},
            input_elements=batch * math.prod(one.values()),
            others=({"batch": "batch", **further},),
            products=(tuple(sizes),),
        )

    def unweighted_flop(self, inputs: tuple[Shape, ...]) -> int:
        """Return the operations of the product on one sample."""
        return self.einsum(1, inputs, self.output_shape(inputs)).flop("forward")

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:  # noqa: ARG002
        """Return that it keeps its inputs, each of which is a factor of the other's error."""
        return Keeps(input=True)


plugin: type[Op] = Matmul
