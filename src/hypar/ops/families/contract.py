"""Ops that contract what they read with a weight, in windows or not."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field, field_validator

from hypar.ops.base import VOLUME, Count, Facts, Op, Shape, Size, Sliding, Weighted, need
from hypar.ops.dims import MADE, READ, DimName, Names, OneSized, Sized, prefixed
from hypar.ops.nest import Projection
from hypar.ops.run import Run
from hypar.ops.tape import Var, product
from hypar.ops.windows import Window, fits


class Linear(Weighted):
    """``F_out = F_in . W`` on a vector of features; with ``out``, over every position of the dims that are not contracted.

    ``out_features`` makes channels of channels. ``in`` names the dims of the input that are contracted, by default its
    last one, and ``out`` the dims that are made in their place. ``weight`` names a layer whose weight is used.
    ``each`` names dims of the input of which every index has a matrix of its own, as each expert of a mixture.
    """

    sized = ("out",)
    out_features: Size | None = None
    contracted: Names | None = Field(default=None, alias="in")
    out: Sized | None = None
    each: Names | None = None
    bias: bool = True
    weight: Annotated[str, Field(max_length=200)] | None = None

    def _refusals(self) -> dict[str, bool]:
        given = {"in": self.contracted, "weight": self.weight, "each": self.each}
        beside = [name for name, own in given.items() if own is not None and self.out is None]
        both = (self.out_features is None) is (self.out is None)
        return {
            "one of out_features and out; give one of them": both,
            f"{' and '.join(beside)} stands beside out alone, not beside out_features": bool(beside),
        }

    def _facts(self, shape: Shape, **windows: Window) -> Facts:
        """Return ``F_out[n,e,p,o] = F_in[n,e,p,i] . W[e,i,o]`` for all positions p and for e, those of ``each``."""
        each = self.each or ()
        fits(not (each and self.bias), f"each {', '.join(each)} and a bias", "bias: false beside each")
        need(shape, (*(self.contracted or ()), *each, *windows))
        vector = self.out_features is None or tuple(shape) == ("channels",)
        fits(vector, [shape], "a vector, so put a flatten before")
        made = {"channels": self.out_features} if self.out_features else dict(self.out or ())
        names = (self.contracted or tuple(shape)[-1:]) if made else ()
        read = {dim: size for dim, size in shape.items() if dim in names}
        kept = {dim: size for dim, size in shape.items() if dim not in read}
        for where, twice in (
            ("each and in in", {*each} & {*read}),
            ("the input and in out", {*made} & {*kept}),
            ("over and elsewhere", {*windows} & {*read, *each, *made}),
        ):
            fits(not twice, f"{', '.join(sorted(twice))} in {where}", "each dim once")
        (read_by, inner), (made_by, outer) = prefixed(READ, read), prefixed(MADE, made)
        loops = {**{dim: kept[dim] for dim in kept if dim in each}, **inner, **outer}
        return self.contraction({**shape, **read_by}, {**kept, **made_by}, loops, windows=windows)


class SequenceConv(Linear):
    """A ``linear`` layer of each window of ``kernel`` positions along ``over``, which a plan does not divide.

    ``each`` names dims of which every index has filters of its own; without ``out`` one, as of a depthwise convolution.
    """

    over: str = "sequence"
    kernel: Size
    stride: Size = 1
    padding: Count = 0
    dilation: Size = 1

    def _refusals(self) -> dict[str, bool]:
        linear = self.out_features is not None or self.weight is not None
        return {
            "out in place of out_features, and no weight of another layer": linear,
            "one of out and each, or both": self.out is None and self.each is None,
            "in stands beside out alone": self.out is None and self.contracted is not None,
        }

    def _facts(self, shape: Shape, **_: Any) -> Facts:
        window = Window(kernel=self.kernel, stride=self.stride, padding=self.padding, dilation=self.dilation)
        return super()._facts(shape, **{self.over: window})


class Conv(Sliding, Weighted):
    """A two-dimensional convolution: filters that slide over the places of an image.

    With ``groups`` all three tensors have a dim ``groups``; ``in_channels`` and ``out_channels`` then are those of one.
    """

    out_channels: Size
    kernel: tuple[Size, ...]
    stride: tuple[Size, ...] = (1, 1)
    padding: tuple[Count, ...] = (0, 0)
    dilation: tuple[Size, ...] = (1, 1)
    groups: Size = 1
    bias: bool = True

    def _facts(self, shape: Shape) -> Facts:
        """Return ``F_out[n,g,o,h,w] = F_in[n,g,i,h',w'] . W[g,i,o,r,s]`` for the h' and w' that the windows read."""
        groups = {"groups": self.groups} if self.groups > 1 else {}
        for name, size in (("in", shape["channels"]), ("out", self.out_channels)):
            found = f"{size} {name}_channels in {self.groups} groups"
            fits(size % self.groups == 0, found, f"a multiple of {self.groups}")
        loops = {
            **groups,
            "in_channels": shape["channels"] // self.groups,
            "out_channels": self.out_channels // self.groups,
        }
        read, made = ({"channels": (*groups, own)} for own in ("in_channels", "out_channels"))
        windows = self.along(**{name: own for name, own in self if name in Window.__slots__})
        return self.contraction(read, made, loops, windows=windows)


class Conv1d(Conv):
    """A convolution of filters that are as high as the image, one row; fields have one number in place of pairs."""

    @field_validator("kernel", "stride", "padding", "dilation", mode="before")
    @classmethod
    def _places(cls, value: Any, info: Any) -> Any:
        """Read a number as a pair, of which the other is that of the only row."""
        if isinstance(value, int) and not isinstance(value, bool):
            return int(info.field_name != "padding"), value
        raise ValueError("a whole number")

    def _facts(self, shape: Shape) -> Facts:
        fits(shape["height"] == 1, [shape], "a height of 1")
        return super()._facts(shape)


class Conv3d(Conv):
    """A convolution of filters that slide over a volume; a plan divides its batch and its channels."""

    form = VOLUME
    stride: tuple[Size, ...] = (1, 1, 1)
    padding: tuple[Count, ...] = (0, 0, 0)
    dilation: tuple[Size, ...] = (1, 1, 1)


class ConvTranspose(Conv):
    """A two-dimensional transposed convolution: the gradient of a convolution's input, with a weight of its own.

    The fields are those of PyTorch's ``ConvTranspose2d``: the output has
    ``(size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1`` elements along each spatial dim.
    """

    transposed = True
    output_padding: tuple[Count, ...] = (0, 0)


class Patch(Sliding, Weighted):
    """A convolution of one filter for each patch of an image, whose places are the positions of a sequence, row by row.

    Patches of size ``kernel`` lie side by side. ``over`` names the dim of the positions, ``out`` those made of a patch.

    Source: Dosovitskiy and others, An Image is Worth 16x16 Words (2021), section 3.1.
    """

    sized = ("out",)
    kernel: tuple[Size, ...]
    out: Sized
    over: DimName = "sequence"
    bias: bool = True

    def _facts(self, shape: Shape) -> Facts:
        """Return ``F_out[n,s,o] = F_in[n,i,h,w] . W[i,r,c,o]`` for the h and w of the patch s; its rows divide with s."""
        (rows, columns), height, width = self.kernel, shape["height"], shape["width"]
        for dim, size in zip(self.form[1:], self.kernel, strict=True):
            fits(shape[dim] % size == 0, f"patches of {size} along {dim} of {shape[dim]}", "a divisor")
        fits(self.over not in dict(self.out), f"{self.over} in over and in out", "each dim once")
        across, (made_by, made) = width // columns, prefixed(MADE, dict(self.out))
        window = Window(kernel=rows, stride=rows, outputs=across)
        reads = Projection(height, (self.over, "kernel_height"), window)
        image = {"channels": "in_channels", "height": reads, "width": Projection(width)}
        taps = {"in_channels": shape["channels"], "kernel_height": rows, "kernel_width": columns}
        return self.contraction(image, {self.over: height // rows * across, **made_by}, {**taps, **made})

    def _value(self, run: Run, read: Var, weight: Var) -> Var:
        width, columns = run.nest.operands["input"].axes["width"].size, self.kernel[1]
        first = run.index(self.over)[:, None, None] * columns % width
        selected = first + np.arange(columns) == np.arange(width)[:, None]
        patches = [read, Var((self.over, "width", "kernel_width"), selected)]
        kept = ("batch", self.over, "in_channels", "kernel_height", "kernel_width")
        return product([product(patches, kept), weight], run.nest.result.dims)


class Embedding(Weighted):
    """``F_out[n,p] = W[token of n,p]``: a product with one-hot vectors, which takes no operations.

    ``over`` is the dim of the table's rows, as ``vocab``; ``out`` the dims of a row. A division of the rows leaves every
    device the rows of the tokens that it has, and zeros for the others: partial sums.
    """

    sized = ("over", "out")
    over: OneSized
    out: Sized

    def _facts(self, tokens: Shape) -> Facts:
        (_, rows), (made_by, made) = prefixed(READ, dict(self.over)), prefixed(MADE, dict(self.out))
        return self.contraction(tokens, {**tokens, **made_by}, {**rows, **made}, fraction=0.0)

    def _value(self, run: Run, tokens: Var, weight: Var) -> Var:
        label = next(iter(run.nest.weight))
        rows, token = run.index(label), token_of(tokens.value, run.nest.sizes[label])
        places = np.where(np.isin(token, rows), np.searchsorted(rows, token), -1)
        return weight.gather(label, places, tokens.dims)


def token_of(data: Any, rows: int) -> Any:
    """Return the row of a table that each number of the data, of any size, stands for: rows are taken in turn."""
    return np.floor(np.abs(data) * 2**20).astype(np.int64) % rows


plugins: dict[str, type[Op]] = {
    "conv": Conv, "conv1d": Conv1d, "conv3d": Conv3d, "conv_transpose": ConvTranspose, "embedding": Embedding,
    "linear": Linear, "patch": Patch, "sequence_conv": SequenceConv,
}  # fmt: skip
