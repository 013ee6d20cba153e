"""Ops that contract: products with a weight, in windows or not, and products of activations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from hypar.ops.base import (
    IMAGE,
    VOLUME,
    Count,
    Node,
    Op,
    Places,
    Shape,
    Size,
    Weighted,
    as_places,
    describe,
    one_input,
    placed_input,
    prefixed,
    require_dims,
    several_inputs,
    slid,
)  # fmt: skip
from hypar.ops.dims import CONTRACTED, KERNEL, MADE, READ, DimName, Names, OneSized, Pairs, Sized, missing
from hypar.ops.nest import Nest
from hypar.ops.operands import Projection, Saved
from hypar.ops.tape import Var, product
from hypar.ops.windows import ShapeError, SharedWindow, TransposedWindow, Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.ops.run import Run


class Linear(Weighted):
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
            raise ValueError("one of out_features and out; give one of them")
        beside = {"in": self.contracted, "weight": self.weight, "each": self.each}
        for name, given in beside.items() if self.out is None else ():
            if given is not None:
                raise ValueError(f"{name} stands beside out alone, not beside out_features")
        if self.each is not None and self.bias:
            raise ValueError("each stands beside bias: false alone")
        return self

    @property
    def tied(self) -> str | None:
        """The layer whose weight it uses; None if it has its own."""
        return self.weight

    @property
    def made(self) -> Mapping[str, int]:
        """The dims that it makes, with their sizes."""
        return dict(self.out) if self.out is not None else {"channels": self.out_features or 1}

    @property
    def windows(self) -> Mapping[str, Window]:
        """The windows along which it slides: none."""
        return {}

    def read(self, shape: Shape) -> Mapping[str, int]:
        """Return the dims of an input that it contracts, with their sizes, in the order of the input."""
        names = tuple(shape)[-1:] if self.contracted is None else self.contracted
        return {dim: size for dim, size in shape.items() if dim in names}

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return ``F_out[n,e,p,o] = F_in[n,e,p,i] . W[e,i,o]`` for all positions p and for e, those of ``each``."""
        shape = one_input(inputs, *(self.contracted or ()), *(self.each or ()))
        if self.out_features is not None and tuple(shape) != ("channels",):
            raise ShapeError(
                f"found an input of {describe(shape)}; allowed: a vector, so put a flatten before"
            )
        read, windows, each = self.read(shape), self.windows, {*(self.each or ())}
        kept = {dim: size for dim, size in shape.items() if dim not in read}
        for where, twice in (
            ("each and in in", each & {*read}),
            ("the input and in out", {*self.made} & {*kept}),
            ("over and elsewhere", {*windows} & {*read, *each, *self.made}),
        ):
            if twice:
                raise ShapeError(f"found {', '.join(sorted(twice))} in {where}; allowed: each dim once")
        kept |= {dim: window.output_size(shape[dim]) for dim, window in windows.items()}
        taps = {f"{KERNEL}{dim}": window.kernel for dim, window in windows.items()}
        (read_by, inner), (made_by, outer) = prefixed(READ, read), prefixed(MADE, self.made)
        return Nest.of(
            batch,
            {**kept, **inner, **outer, **taps},
            [{**shape, **read_by, **slid(shape, windows)}],
            {**kept, **made_by},
            weight=[*(dim for dim in kept if dim in each), *inner, *taps, *outer],
            trained={"bias": made_by} if self.bias else {},
            whole=frozenset(windows),
            saved=Saved(input=True),
            zeros=self.zeros,
        )


class SequenceConv(Linear):
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
            raise ValueError("out in place of out_features, and no weight of another layer")
        if self.out is None and self.contracted is not None:
            raise ValueError("in stands beside out alone")
        if self.each is not None and self.bias:
            raise ValueError("each stands beside bias: false alone")
        return self

    @property
    def made(self) -> Mapping[str, int]:
        """The dims that it makes, with their sizes."""
        return dict(self.out or ())

    @property
    def windows(self) -> Mapping[str, Window]:
        """The window of positions that an output reads."""
        window = Window(kernel=self.kernel, stride=self.stride, padding=self.padding, dilation=self.dilation)
        return {self.over: window}

    def read(self, shape: Shape) -> Mapping[str, int]:
        """Return the dims of an input that it contracts besides the window, with their sizes."""
        require_dims(shape, (self.over,))
        return super().read(shape) if self.out is not None else {}


class Conv(Weighted):
    """A two-dimensional convolution: filters that slide over the places of an image.

    With ``groups`` the nest has a dim ``groups`` in all three tensors; ``in_channels`` and ``out_channels`` then count the
    channels within a group.
    """

    form: ClassVar[tuple[str, ...]] = IMAGE
    out_channels: Size
    kernel: Places
    stride: Places = (1, 1)
    padding: tuple[Count, ...] = (0, 0)
    dilation: Places = (1, 1)
    groups: Size = 1
    bias: bool = True

    @field_validator(
        "kernel", "stride", "padding", "dilation", "output_padding", mode="before", check_fields=False
    )
    @classmethod
    def _places(cls, value: Any) -> Any:
        """Read one number as that of every dim of a place."""
        return as_places(value, cls.form[1:])

    @property
    def windows(self) -> Mapping[str, Window]:
        """The window along each dim of a place."""
        fields = zip(self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return {
            dim: Window(kernel=kernel, stride=stride, padding=padding, dilation=dilation)
            for dim, (kernel, stride, padding, dilation) in zip(self.form[1:], fields, strict=True)
        }

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return ``F_out[n,g,o,h,w] = F_in[n,g,i,h',w'] . W[g,i,o,r,s]`` for the h' and w' that the windows read."""
        shape, windows = placed_input(inputs, self.form), self.windows
        for name, size in (("in", shape["channels"]), ("out", self.out_channels)):
            if size % self.groups:
                found = f"found {size} {name}_channels in {self.groups} groups"
                raise ShapeError(f"{found}; allowed: a multiple of {self.groups}")
        places = {dim: window.output_size(shape[dim]) for dim, window in windows.items()}
        groups = {"groups": self.groups} if self.groups > 1 else {}
        filters = {
            **groups,
            "in_channels": shape["channels"] // self.groups,
            "out_channels": self.out_channels // self.groups,
            **{f"{KERNEL}{dim}": window.kernel for dim, window in windows.items()},
        }
        read, made = (*groups, "in_channels"), (*groups, "out_channels")
        return Nest.of(
            batch,
            {**filters, **places},
            [{"channels": read, **slid(shape, windows)}],
            {"channels": made, **places},
            weight=filters,
            trained={"bias": {"channels": made}} if self.bias else {},
            whole=frozenset(places) if self.form == VOLUME else frozenset(),
            saved=Saved(input=True),
            zeros=self.zeros,
        )


class Conv1d(Conv):
    """A convolution of filters that are as high as the image, one row; fields have one number in place of pairs."""

    @field_validator("kernel", "stride", "padding", "dilation", mode="before")
    @classmethod
    def _places(cls, value: Any, info: Any) -> Any:  # type: ignore[override]
        """Read a number as a pair, of which the other is that of the only row."""
        if isinstance(value, int) and not isinstance(value, bool):
            return int(info.field_name != "padding"), value
        raise ValueError("a whole number")

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return the nest of a convolution of one row."""
        found = super().nest(batch, inputs)
        if inputs[0]["height"] != 1:
            raise ShapeError(f"found an input of {describe(inputs[0])}; allowed: a height of 1")
        return found


class Conv3d(Conv):
    """A convolution of filters that slide over a volume; a plan divides its batch and its channels."""

    form: ClassVar[tuple[str, ...]] = VOLUME
    stride: Places = (1, 1, 1)
    padding: tuple[Count, ...] = (0, 0, 0)
    dilation: Places = (1, 1, 1)


class ConvTranspose(Conv):
    """A two-dimensional transposed convolution: the gradient of a convolution's input, with a weight of its own.

    The fields are those of PyTorch's ``ConvTranspose2d``: the output has
    ``(size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1`` elements along each spatial dim.
    """

    output_padding: tuple[Count, ...] = (0, 0)

    @property
    def windows(self) -> Mapping[str, Window]:
        """The window along each spatial dim; raises ``ShapeError`` for an output padding not below stride or dilation."""
        pairs = zip(super().windows.items(), self.output_padding, strict=True)
        return {dim: TransposedWindow.of(window, more) for (dim, window), more in pairs}


class Patch(Weighted):
    """A convolution of one filter for each patch of an image, whose places are the positions of a sequence, row by row.

    Patches have the size ``kernel`` and lie side by side. ``over`` names the dim of the positions, ``out`` those that are
    made of a patch.

    Source: Dosovitskiy and others, An Image is Worth 16x16 Words (2021), section 3.1.
    """

    sized: ClassVar[tuple[str, ...]] = ("out",)
    kernel: Places
    out: Sized
    over: DimName = "sequence"
    bias: bool = True

    @field_validator("kernel", mode="before")
    @classmethod
    def _places(cls, value: Any) -> Any:
        """Read one number as both height and width."""
        return as_places(value, IMAGE[1:])

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return ``F_out[n,s,o] = F_in[n,i,h,w] . W[i,r,c,o]`` for the h and w of the patch s; its rows divide with s."""
        shape, (rows, columns) = placed_input(inputs), self.kernel
        for dim, size in zip(IMAGE[1:], self.kernel, strict=True):
            if shape[dim] % size:
                raise ShapeError(f"found patches of {size} along {dim} of {shape[dim]}; allowed: a divisor")
        if self.over in dict(self.out):
            raise ShapeError(f"found {self.over} in over and in out; allowed: each dim once")
        across, (made_by, made) = shape["width"] // columns, prefixed(MADE, dict(self.out))
        window, places = (
            SharedWindow(kernel=rows, stride=rows, outputs=across),
            shape["height"] // rows * across,
        )
        read = Projection(shape["height"], (self.over, "kernel_height"), window)
        image = {"channels": "in_channels", "height": read, "width": Projection(shape["width"])}
        taps = {"in_channels": shape["channels"], "kernel_height": rows, "kernel_width": columns}
        return Nest.of(
            batch,
            {self.over: places, **taps, **made},
            [image],
            {self.over: places, **made_by},
            weight=[*taps, *made],
            trained={"bias": made_by} if self.bias else {},
            saved=Saved(input=True),
            zeros=self.zeros,
        )

    def value(self, run: Run) -> Var:
        """Return the product of each patch, whose columns are selected of whole rows, with the weight."""
        width, columns = run.nest.operands["input"].axes["width"].size, self.kernel[1]
        first = run.index(self.over)[:, None, None] * columns % width
        own = Var(
            (self.over, "width", "kernel_width"), first + np.arange(columns) == np.arange(width)[:, None]
        )
        kept = ("batch", self.over, "in_channels", "kernel_height", "kernel_width")
        return product([product([run.input(), own], kept), run.parameter()], run.nest.result.dims)


class Embedding(Weighted):
    """``F_out[n,p] = W[token of n,p]``: a product with one-hot vectors, which takes no operations.

    ``over`` is the dim of the table's rows, as ``vocab``; ``out`` the dims of a row. A division of the rows leaves every
    device the rows of the tokens that it has, and zeros for the others: partial sums.
    """

    sized: ClassVar[tuple[str, ...]] = ("over", "out")
    over: OneSized
    out: Sized

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return ``F_out[n,p,h] = onehot[n,p,v] . W[v,h]``; the tokens that stand for the one-hot vectors have no v."""
        tokens, (_, rows), (made_by, made) = (
            one_input(inputs),
            prefixed(READ, dict(self.over)),
            prefixed(MADE, dict(self.out)),
        )
        loops = {**tokens, **rows, **made}
        return Nest.of(
            batch,
            loops,
            [tokens],
            {**tokens, **made_by},
            weight=[*rows, *made],
            products=(("batch", *loops),),
            fraction=0.0,
            saved=Saved(input=True),
            zeros=self.zeros,
        )

    def value(self, run: Run) -> Var:
        """Return the rows that the piece has, and zeros for the tokens of other rows."""
        tokens, label = run.input(), run.nest.weight[0]
        rows, token = run.index(label), token_of(tokens.value, run.nest.sizes[label])
        place = np.minimum(np.searchsorted(rows, token), len(rows) - 1)
        return run.parameter().gather(label, np.where(rows[place] == token, place, -1), tokens.dims)


def token_of(data: Any, rows: int) -> Any:
    """Return the row of a table that each number of the data, of any size, stands for: rows are taken in turn."""
    return np.floor(np.abs(data) * 2**20).astype(np.int64) % rows


class Matmul(Op):
    """``F_out[p,i,j] = F_1[p,i,k] . F_2[p,j,k]``: a sum over the dims ``over``, at each position of dims that both have.

    ``over`` names the dims that are contracted, or maps those of the first input to those of the second. ``names`` renames
    dims of the second input, where the first has other positions under the same name.
    """

    node: ClassVar[Node] = "join"
    over: Pairs
    names: Pairs | None = None

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return the product over named dims: those of the first input, and those that the second alone has."""
        one, two = several_inputs(inputs)
        over, names = dict(self.over), dict(self.names or ())
        require_dims(one, over)
        require_dims(two, [*over.values(), *names])
        back = {theirs: f"{CONTRACTED}{own}" for own, theirs in self.over}
        second = {back.get(axis) or names.get(axis, axis): axis for axis in two}
        kept = {dim: size for dim, size in one.items() if dim not in over}
        unlike = [dim for dim, size in kept.items() if dim in second and two[second[dim]] != size]
        unlike += [own for own, theirs in self.over if one[own] != two[theirs]]
        if unlike:
            found = f"{describe(one)} and {describe(two)}"
            raise ShapeError(f"found {found}; allowed: equal {', '.join(unlike)}, or names for the second's")
        by, inner = prefixed(CONTRACTED, {own: one[own] for own in over})
        made = {**kept, **{dim: two[axis] for dim, axis in second.items() if axis not in back}}
        loops, others = {**made, **inner}, {axis: dim for dim, axis in second.items()}
        products = (("batch", *loops),)
        return Nest.of(
            batch, loops, [{**one, **by}, others], made, products=products, saved=Saved(input=True)
        )


plugins: dict[str, type[Op]] = {
    "conv": Conv, "conv1d": Conv1d, "conv3d": Conv3d, "conv_transpose": ConvTranspose, "embedding": Embedding,
    "linear": Linear, "matmul": Matmul, "patch": Patch, "sequence_conv": SequenceConv,
}  # fmt: skip
