"""The base of all ops: an op states its dims once; shapes, parameters, work and cuts follow from them.

An op is a frozen pydantic model, whose fields are those of the model file. A shape names the dims of one
sample, ``{"channels": 64, "height": 56, "width": 56}`` or ``{"channels": 4096}``; every tensor has a
``batch`` dim besides. Weighted ops and joins describe themselves as an einsum over named dims.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from hypar.files.quantities import AsNumber
from hypar.files.record import Record
from hypar.network.einsum import Einsum
from hypar.network.keeping import Keeps, Traffic
from hypar.network.windows import ShapeError, Window

LARGEST_SIZE = 2**24
"""Largest size of channels, height, width or a mini-batch."""

Size = Annotated[int, Field(ge=1, le=LARGEST_SIZE)]
Count = Annotated[int, Field(ge=0, le=LARGEST_SIZE)]
Shape = Mapping[str, int]
IMAGE = ("channels", "height", "width")


def _as_pair(value: Any) -> Any:
    """Return one number as both height and width, and a list of two as a tuple."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value, value
    if isinstance(value, list | tuple) and len(value) == 2:
        return tuple(value)
    msg = "a whole number, or two of them as [height, width]"
    raise ValueError(msg)


Zeros = Annotated[float, AsNumber, Field(ge=0, le=1)]
SizePair = Annotated[tuple[Size, Size], BeforeValidator(_as_pair)]
CountPair = Annotated[tuple[Count, Count], BeforeValidator(_as_pair)]


class Op(Record):
    """The kind of a layer. Subclasses add the fields that a model file may give.

    Attributes:
        weighted: whether it has a weight to cut.
        join: whether it combines several tensors.
        operands: least number of inputs that have dims of their own; 1 for a join, whose inputs are alike.
        sized: fields of dims with their sizes, which a model file may name alone.
        passes: whether the error of an input is the error of the output, or a part of it.
        pools: whether it makes an image of another size, so that it is a node of the operator graph.
        view: whether its output is its input in another shape, without memory of its own.
        flop_per_element: floating-point operations on each input element, for an op without a weight.
        concatenates: whether its output is its inputs' channels one behind the other.
        whole: whether an output may depend on all elements of a sample of every input.
        statistics: names of the sums over ``statistics_over`` that the forward pass needs before it can go on.
        back_statistics: names of those that the backward pass needs.
        statistics_over: dims that these sums run over.
    """

    weighted: ClassVar[bool] = False
    join: ClassVar[bool] = False
    operands: ClassVar[int] = 1
    sized: ClassVar[tuple[str, ...]] = ()
    passes: ClassVar[bool] = False
    pools: ClassVar[bool] = False
    view: ClassVar[bool] = False
    flop_per_element: ClassVar[int] = 0
    concatenates: ClassVar[bool] = False
    whole: ClassVar[bool] = False
    statistics: ClassVar[tuple[str, ...]] = ()
    back_statistics: ClassVar[tuple[str, ...]] = ()
    statistics_over: ClassVar[frozenset[str]] = frozenset()

    @property
    def multiplies(self) -> bool:
        """Whether it multiplies tensors, so that its einsum says what each device computes and what it adds up."""
        return self.weighted or self.operands > 1

    @property
    def together(self) -> frozenset[str]:
        """Return the dims that the maker of its input may not divide."""
        return frozenset()

    @property
    def tied(self) -> str | None:
        """The layer whose weight it uses; None if it has its own."""
        return None

    @property
    def names_dims(self) -> bool:
        """Whether the model names its dims, so that they are more than channels, height and width."""
        return False

    @property
    def rounds(self) -> Mapping[str, int]:
        """Return the indices of each dim that it takes at a time, where these are more than one."""
        return {}

    @property
    def averages(self) -> bool:
        """Whether an output is a mean of inputs, so that devices can add up terms of it."""
        return False

    def windows_on(self, inputs: tuple[Shape, ...]) -> Mapping[str, Window]:  # noqa: ARG002
        """Return the window along each dim of an input of which an output reads more than its own index."""
        return {}

    def contracts(self, inputs: tuple[Shape, ...]) -> frozenset[str]:  # noqa: ARG002
        """Return the dims that an op without a weight reduces to one element by a sum or a comparison."""
        return frozenset()

    def reduced(self, name: str, shape: Shape) -> frozenset[str]:  # noqa: ARG002
        """Return the dims that one of its sums runs over."""
        return self.statistics_over

    def together_in(self, shape: Shape) -> Mapping[str, int]:  # noqa: ARG002
        """Return for some dims of its sums how many indices next to each other need the sums of each other."""
        return {}

    def parameter_dims(self, name: str, shape: Shape) -> tuple[str, ...]:  # noqa: ARG002
        """Return the dims of a trained tensor that lies as its output does: of one number for each channel."""
        return ("channels",)

    def table(self, name: str) -> int:  # noqa: ARG002
        """Return the rows of a trained tensor that is a table, each with those dims; 0 if it has no rows."""
        return 0

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the shape of one output sample.

        Args:
            inputs: the shape of each input.

        Raises:
            ShapeError: the op does not accept the inputs.
        """
        return one_input(inputs)

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:  # noqa: ARG002
        """Return the number of trained parameters, biases included."""
        return 0

    def parameters(self, inputs: tuple[Shape, ...]) -> Mapping[str, int]:
        """Return the elements of each trained tensor by its name in frameworks; by default one tensor holds all."""
        count = self.num_parameters(inputs)
        return {"weight": count} if count else {}

    def num_statistics(self, inputs: tuple[Shape, ...]) -> int:  # noqa: ARG002
        """Return the number of untrained statistics, such as running means."""
        return 0

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:  # noqa: ARG002
        """Return the memory that the op keeps for its backward phase.

        By default a weighted op keeps its input, which the gradient of its weight reads, and any other op nothing.
        """
        return Keeps(input=self.weighted)

    def unweighted_flop(self, inputs: tuple[Shape, ...]) -> int:
        """Return the floating-point operations on one sample, forward, of an op without a weight."""
        return self.flop_per_element * sum(elements_of(shape) for shape in inputs)

    def traffic(self, inputs: tuple[Shape, ...]) -> Traffic:
        """Return what the op reads and writes for one sample, besides the operands and the result of a product.

        The forward phase reads each input once, and writes the output and what else is kept. The backward phase reads the
        error of the output and what was kept, and writes the error of each input, unless that is the error of the output.
        """
        if self.view or self.multiplies or not inputs:
            return Traffic()
        read, made = sum(map(elements_of, inputs)), elements_of(self.output_shape(inputs))
        kept = self.keeps(inputs)
        again = read * kept.input + made * kept.output + kept.elements
        return Traffic(
            forward=read + made + kept.elements,
            backward=0 if self.passes else made + again + read,
            mask_bytes=kept.mask_bytes,
            flop=self.unweighted_flop(inputs),
        )

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:  # noqa: ARG002
        """Return the op as a contraction over named dims; by default one that only passes tensors on, like a join."""
        dims = {"batch": "batch", **{dim: dim for dim in output}}
        elements = batch * math.prod(output.values())
        return Einsum(
            sizes={"batch": batch, **output}, input=dims, weight=(), output=dims, input_elements=elements
        )


class Contraction(Op):
    """An op with a weight.

    Attributes:
        input_zeros: fraction of zeros in what it reads; None if not known.
        output_zeros: fraction of zeros in what it writes, the ReLU behind it done; None if not known.
    """

    weighted: ClassVar[bool] = True
    input_zeros: Zeros | None = None
    output_zeros: Zeros | None = None

    @property
    def zeros(self) -> Mapping[str, float]:
        """The fraction of zeros in F_in and F_out, where it is known."""
        given = {"input": self.input_zeros, "output": self.output_zeros}
        return {tensor: zeros for tensor, zeros in given.items() if zeros is not None}


class Pointwise(Op):
    """An elementwise op."""

    flop_per_element: ClassVar[int] = 1


class Alike(Op):
    """A join of tensors of one shape, element by element."""

    join: ClassVar[bool] = True

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the common shape of all inputs."""
        if len(inputs) < 2:
            raise ShapeError(f"found {len(inputs)} input; allowed: 2 or more")
        for shape in inputs[1:]:
            if dict(shape) != dict(inputs[0]):
                raise ShapeError(f"found {describe(inputs[0])} and {describe(shape)}; allowed: equal shapes")
        return inputs[0]

    def unweighted_flop(self, inputs: tuple[Shape, ...]) -> int:
        """Return one operation for each element of every input after the first."""
        return (len(inputs) - 1) * elements_of(inputs[0])


def one_input(inputs: tuple[Shape, ...]) -> Shape:
    """Return the only input of an op with one input.

    Raises:
        ShapeError: the op has no input or several.
    """
    if len(inputs) != 1:
        raise ShapeError(f"found {len(inputs)} inputs; allowed: 1")
    return inputs[0]


def require_dims(shape: Shape, names: Collection[str]) -> None:
    """Check that an input has some dims.

    Raises:
        ShapeError: it lacks one.
    """
    missing = [name for name in names if name not in shape]
    if missing:
        raise ShapeError(f"found an input of {describe(shape)}; allowed: one with {', '.join(missing)}")


def image_input(inputs: tuple[Shape, ...]) -> Shape:
    """Return the only input of an op that slides over height and width.

    Raises:
        ShapeError: the input is not one image.
    """
    shape = one_input(inputs)
    if tuple(shape) != IMAGE:
        raise ShapeError(f"found an input of {describe(shape)}; allowed: channels, height and width")
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
