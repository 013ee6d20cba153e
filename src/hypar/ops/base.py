"""The base of all ops, and the shapes and fields of several."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from hypar.files.quantities import AsNumber
from hypar.files.record import Record
from hypar.ops.dims import KERNEL
from hypar.ops.nest import Nest
from hypar.ops.operands import Projection
from hypar.ops.tape import Var, product
from hypar.ops.windows import ShapeError, Window

if TYPE_CHECKING:
    from hypar.ops.run import Run

LARGEST_SIZE = 2**24
"""Largest size of channels, height, width or a mini-batch."""

Size = Annotated[int, Field(ge=1, le=LARGEST_SIZE)]
Count = Annotated[int, Field(ge=0, le=LARGEST_SIZE)]
Shape = Mapping[str, int]
IMAGE, VOLUME = ("channels", "height", "width"), ("channels", "depth", "height", "width")
Node = Literal["", "weight", "join", "pool"]
Zeros = Annotated[float, AsNumber, Field(ge=0, le=1)]
Places = tuple[Size, ...]
"""A number for each dim of a place; a model file may give one for all."""


def as_places(value: Any, dims: tuple[str, ...]) -> Any:
    """Return one number as that of every dim of a place, and a list of as many as a tuple."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,) * len(dims)
    if isinstance(value, list | tuple) and len(value) == len(dims):
        return tuple(value)
    raise ValueError(
        f"a whole number, or {'two' if len(dims) == 2 else 'three'} of them as [{', '.join(dims)}]"
    )


class Op(Record):
    """The kind of a layer: a frozen record, whose fields are those of the model file.

    A shape names the dims of one sample, ``{"channels": 64, "height": 56, "width": 56}`` or ``{"channels": 4096}``; every
    tensor has a ``batch`` dim besides. An op says what it makes of shapes, its nest, and its value as a forward expression;
    all else follows from these.

    Attributes:
        node: why it is a node of the plan graph: it has a ``weight``, or it is a ``join`` of tensors, or a ``pool`` that makes
            an image of another size and is a node where pools are asked for; empty for an op that is fused behind another.
        sized: fields of dims with their sizes, which a model file may name alone.
    """

    node: ClassVar[Node] = ""
    sized: ClassVar[tuple[str, ...]] = ()

    @property
    def tied(self) -> str | None:
        """The layer whose weight it uses; None if it has its own."""
        return None

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return the op as a loop nest, for a mini-batch of some inputs; by default it only passes one on.

        Raises:
            ShapeError: the op does not accept the inputs.
        """
        return same_shape(batch, (one_input(inputs),))

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the shape of one output sample, from that of each input.

        Raises:
            ShapeError: the op does not accept the inputs.
        """
        _, *dims = self.nest(1, inputs).result.axes.items()
        return {dim: own.size for dim, own in dims}

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:
        """Return the number of trained parameters, biases included, but for a weight that another layer has."""
        trained = self.nest(1, inputs).trained
        return sum(
            math.prod(own.shape) for name, own in trained.items() if not (self.tied and name == "weight")
        )

    def value(self, run: Run) -> Var:
        """Return what a device computes of its piece, as a forward expression: by default the product of all operands."""
        nest = run.nest
        read = [run.input(number) for number in range(len(nest.inputs))]
        weight = [run.parameter("weight")] if nest.weight else []
        return product([*read, *weight], nest.result.dims)


class Weighted(Op):
    """An op with a weight that it contracts.

    Attributes:
        input_zeros: fraction of zeros in what it reads; None if not known.
        output_zeros: fraction of zeros in what it writes, the ReLU behind it done; None if not known.
    """

    node: ClassVar[Node] = "weight"
    input_zeros: Zeros | None = None
    output_zeros: Zeros | None = None

    @property
    def zeros(self) -> Mapping[str, float]:
        """The fraction of zeros in F_in and F_out, where it is known."""
        given = {"input": self.input_zeros, "output": self.output_zeros}
        return {tensor: zeros for tensor, zeros in given.items() if zeros is not None}


def prefixed(prefix: str, sizes: Mapping[str, int]) -> tuple[dict[str, str], dict[str, int]]:
    """Return axes that loop dims of their names with a prefix index, and these loop dims with their sizes."""
    return {dim: f"{prefix}{dim}" for dim in sizes}, {f"{prefix}{dim}": size for dim, size in sizes.items()}


def slid(shape: Shape, windows: Mapping[str, Window]) -> dict[str, Projection]:
    """Return the axes of a tensor along which windows slide, whose outputs have the names of the axes."""
    return {dim: Projection(shape[dim], (dim, f"{KERNEL}{dim}"), window) for dim, window in windows.items()}


def same_shape(batch: int, inputs: Sequence[Shape], **facts: Any) -> Nest:
    """Return the nest of an op whose inputs and output have one shape."""
    return Nest.of(batch, inputs[0], inputs, inputs[0], **facts)


def one_input(inputs: tuple[Shape, ...], *dims: str) -> Shape:
    """Return the only input of an op with one input.

    Raises:
        ShapeError: the op has no input or several, or the input lacks one of some dims.
    """
    if len(inputs) != 1:
        raise ShapeError(f"found {len(inputs)} inputs; allowed: 1")
    require_dims(inputs[0], dims)
    return inputs[0]


def several_inputs(inputs: tuple[Shape, ...], what: str = "") -> tuple[Shape, Shape]:
    """Return the two inputs of a product; raises ``ShapeError`` for another number."""
    if len(inputs) != 2:
        raise ShapeError(f"found {len(inputs)} inputs; allowed: 2{what}")
    return inputs[0], inputs[1]


def require_dims(shape: Shape, names: Collection[str]) -> None:
    """Check that an input has some dims.

    Raises:
        ShapeError: it lacks one.
    """
    missing = [name for name in names if name not in shape]
    if missing:
        raise ShapeError(f"found an input of {describe(shape)}; allowed: one with {', '.join(missing)}")


def placed_input(inputs: tuple[Shape, ...], form: tuple[str, ...] = IMAGE) -> Shape:
    """Return the only input of an op that slides over the places of an image or a volume.

    Raises:
        ShapeError: the input is not one image, or not one volume.
    """
    shape = one_input(inputs)
    if tuple(shape) != form:
        allowed = "channels, height and width" if form == IMAGE else ", ".join(form)
        raise ShapeError(f"found an input of {describe(shape)}; allowed: {allowed}")
    return shape


def elements_of(shape: Shape) -> int:
    """Return the number of elements in one sample."""
    return math.prod(shape.values())


def describe(shape: Shape) -> str:
    """Format a shape for people.

    Examples:
        >>> describe({"channels": 3, "height": 224, "width": 224})
        '3x224x224 (channels, height, width)'
    """
    return "x".join(str(size) for size in shape.values()) + f" ({', '.join(shape)})"
