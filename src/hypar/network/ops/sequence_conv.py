"""Convolution along the positions of a sequence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from pydantic import model_validator

from hypar.network.dims import KERNEL
from hypar.network.named import missing
from hypar.network.ops.base import Count, Op, Shape, Size, describe, one_input, require_dims
from hypar.network.ops.bases.matrices import Matrices
from hypar.network.windows import ShapeError, Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.einsum import Einsum


class SequenceConv(Matrices):
    """A ``linear`` layer of each window of ``kernel`` positions along ``over``, which a plan does not divide.

    ``each`` names dims of which every index has filters of its own; without ``out`` each of their indices has one filter, as a
    depthwise convolution.
    """

    over: str = "sequence"
    kernel: Size
    stride: Size = 1
    padding: Count = 0
    dilation: Size = 1

    @model_validator(mode="before")
    @classmethod
    def _some(cls, data: Any) -> Any:
        """Require ``out`` where there is no ``each``."""
        if isinstance(data, dict) and not {"out", "each"} & {*data}:
            raise missing("out", data)
        return data

    @model_validator(mode="after")
    def _features_or_dims(self) -> Self:
        """Refuse what ``linear`` alone has."""
        if self.out_features is not None or self.weight is not None:
            msg = "out in place of out_features, and no weight of another layer"
            raise ValueError(msg)
        if self.out is None and self.contracted is not None:
            msg = "in stands beside out alone"
            raise ValueError(msg)
        if self.each is not None and self.bias:
            msg = "each stands beside bias: false alone"
            raise ValueError(msg)
        return self

    @property
    def names_dims(self) -> bool:
        """Return that its dims are named."""
        return True

    @property
    def made(self) -> Mapping[str, int]:
        """The dims that it makes, with their sizes."""
        return dict(self.out or ())

    @property
    def window(self) -> Window:
        """The window of positions that an output reads."""
        return Window(kernel=self.kernel, stride=self.stride, padding=self.padding, dilation=self.dilation)

    def read(self, shape: Shape) -> Mapping[str, int]:
        """Return the dims of an input that it contracts besides the window, with their sizes."""
        return super().read(shape) if self.out is not None else {}

    def windows_on(self, inputs: tuple[Shape, ...]) -> Mapping[str, Window]:  # noqa: ARG002
        """Return the window of positions."""
        return {self.over: self.window}

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the places of the window and the other dims that are not contracted, and behind them those of ``out``."""
        shape = one_input(inputs)
        require_dims(shape, (self.over, *(self.contracted or ()), *(self.each or ())))
        if self.over in {*self.read(shape), *self.matrices(shape), *self.made}:
            raise ShapeError(
                f"found {self.over} of {describe(shape)} in over and elsewhere; allowed: each dim once"
            )
        found = dict(shape) if self.out is None else super().output_shape(inputs)
        return {**found, self.over: self.window.output_size(shape[self.over])}

    def parameters(self, inputs: tuple[Shape, ...]) -> dict[str, int]:
        """Return the elements of the filters and the biases."""
        found = super().parameters(inputs)
        return {**found, "weight": found["weight"] * self.kernel}

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:
        """Return ``F_out[n,e,s,o] = F_in[n,e,s',i] . W[e,i,r,o]`` for the s' that the window at s reads."""
        found = super().einsum(batch, inputs, output)
        taps = f"{KERNEL}{self.over}"
        made = tuple(dim for dim in found.weight if dim not in found.input)
        return replace(
            found,
            sizes={**found.sizes, self.over: output[self.over], taps: self.kernel},
            weight=(*(dim for dim in found.weight if dim in found.input), taps, *made),
            whole=frozenset({self.over}),
        )


plugin: type[Op] = SequenceConv
