"""Ops with a matrix, whose dims are those that it contracts and makes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from hypar.network.dims import MADE, READ
from hypar.network.einsum import Einsum
from hypar.network.named import Names, Sized, missing
from hypar.network.ops.base import Contraction, Shape, Size, describe, one_input, require_dims
from hypar.network.windows import ShapeError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Matrices(Contraction):
    """``F_out = F_in . W`` on a vector of features; with ``out``, over every position of the dims that are not contracted.

    ``out_features`` makes channels of channels. ``in`` names the dims of the input that are contracted, by default its
    last one, and ``out`` the dims that are made in their place. ``weight`` names a layer whose weight is used.
    ``each`` names dims of the input of which every index has a matrix of its own, as each expert of a mixture.
    """

    sized: ClassVar[tuple[str, ...]] = ("out",)
    out_features: Size | None = None
    contracted: Names | None = Field(default=None, alias="in")
    out: Sized | None = None
    each: Names | None = None
    bias: bool = True
    weight: Annotated[str, Field(max_length=200)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _some(cls, data: Any) -> Any:
        """Require ``out_features`` where there is no ``out``."""
        if isinstance(data, dict) and not {"out", "out_features"} & {*data}:
            raise missing("out_features", data)
        return data

    @model_validator(mode="after")
    def _features_or_dims(self) -> Self:
        """Require either ``out_features`` or ``out``."""
        if (self.out_features is None) is (self.out is None):
            msg = "one of out_features and out; give one of them"
            raise ValueError(msg)
        if self.out is None and self.contracted is not None:
            msg = "in stands beside out alone, not beside out_features"
            raise ValueError(msg)
        if self.out is None and self.weight is not None:
            msg = "weight stands beside out alone, not beside out_features"
            raise ValueError(msg)
        if self.out is None and self.each is not None:
            msg = "each stands beside out alone, not beside out_features"
            raise ValueError(msg)
        if self.each is not None and self.bias:
            msg = "each stands beside bias: false alone"
            raise ValueError(msg)
        return self

    @property
    def tied(self) -> str | None:
        """The layer whose weight it uses; None if it has its own."""
        return self.weight

    @property
    def names_dims(self) -> bool:
        """Whether its dims are named."""
        return self.out is not None

    @property
    def made(self) -> Mapping[str, int]:
        """The dims that it makes, with their sizes."""
        return dict(self.out) if self.out is not None else {"channels": self.out_features or 1}

    def read(self, shape: Shape) -> Mapping[str, int]:
        """Return the dims of an input that it contracts, with their sizes, in the order of the input."""
        names = tuple(shape)[-1:] if self.contracted is None else self.contracted
        return {dim: size for dim, size in shape.items() if dim in names}

    def matrices(self, shape: Shape) -> Mapping[str, int]:
        """Return the dims of an input of which every index has a matrix of its own, with their sizes."""
        return {dim: size for dim, size in shape.items() if dim in (self.each or ())}

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return ``out_features`` as channels, or the dims that are not contracted and behind them those of ``out``."""
        shape = one_input(inputs)
        if self.out is None:
            if tuple(shape) != ("channels",):
                raise ShapeError(
                    f"found an input of {describe(shape)}; allowed: a vector, so put a flatten before"
                )
            return self.made
        require_dims(shape, (*(self.contracted or ()), *(self.each or ())))
        both = [dim for dim in self.matrices(shape) if dim in self.read(shape)]
        if both:
            raise ShapeError(f"found {', '.join(both)} in each and in in; allowed: each dim once")
        kept = {dim: size for dim, size in shape.items() if dim not in self.read(shape)}
        twice = [dim for dim in self.made if dim in kept]
        if twice:
            raise ShapeError(f"found {', '.join(twice)} in the input and in out; allowed: each dim once")
        return {**kept, **self.made}

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:
        """Return the elements of the matrix and the biases."""
        return sum(self.parameters(inputs).values())

    def parameters(self, inputs: tuple[Shape, ...]) -> dict[str, int]:
        """Return the elements of the matrix and the biases."""
        made = math.prod(self.made.values())
        bias = {"bias": made} if self.bias else {}
        shape = one_input(inputs)
        matrices = math.prod(self.matrices(shape).values())
        weight = {"weight": matrices * made * math.prod(self.read(shape).values())}
        return {**(weight if self.weight is None else {}), **bias}

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:  # noqa: ARG002
        """Return ``F_out[n,e,p,o] = F_in[n,e,p,i] . W[e,i,o]`` for all positions p and for e, those of ``each``."""
        shape = one_input(inputs)
        read, made = self.read(shape), self.made
        kept = {"batch": batch, **{dim: size for dim, size in shape.items() if dim not in read}}
        contracted, left = ({f"{READ}{dim}": dim for dim in read}, {f"{MADE}{dim}": dim for dim in made})
        free = {dim: dim for dim in kept}
        return Einsum(
            sizes={
                **kept,
                **{dim: read[own] for dim, own in contracted.items()},
                **{dim: made[own] for dim, own in left.items()},
            },
            input={**free, **contracted},
            weight=(*self.matrices(shape), *contracted, *left),
            output={**free, **left},
            input_elements=batch * math.prod(shape.values()),
            zeros=self.zeros,
        )
