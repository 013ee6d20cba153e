"""Learned positions: a trained tensor that is added to every sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hypar.network.ops.base import Op, Pointwise, Shape, elements_of, one_input

if TYPE_CHECKING:
    from collections.abc import Mapping


class Position(Pointwise):
    """``F_out = F_in + W``, with one trained number for each element of a sample."""

    back_statistics: ClassVar[tuple[str, ...]] = ("weight",)
    statistics_over: ClassVar[frozenset[str]] = frozenset({"batch"})

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:
        """Return the elements of a sample."""
        return elements_of(one_input(inputs))

    def parameters(self, inputs: tuple[Shape, ...]) -> Mapping[str, int]:
        """Return the elements of a sample."""
        return {"weight": self.num_parameters(inputs)}

    def parameter_dims(self, name: str, shape: Shape) -> tuple[str, ...]:  # noqa: ARG002
        """Return the dims of a sample."""
        return tuple(shape)


plugin: type[Op] = Position
