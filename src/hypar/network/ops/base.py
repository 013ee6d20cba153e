"""The base of all ops: an op states its dims once; shapes, parameters, work and cuts follow from them.

An op is a frozen pydantic model, whose fields are those of the model file. A shape names the dims of one
sample, ``{"channels": 64, "height": 56, "width": 56}`` or ``{"channels": 4096}``; every tensor has a
``batch`` dim besides. Weighted ops and joins describe themselves as an einsum over named dims.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from hypar.files.quantities import AsNumber
from hypar.files.record import Record
from hypar.network.einsum import Einsum
from hypar.network.keeping import Keeps
from hypar.network.named import Names
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
        operands: number of inputs that have dims of their own; 1 for a join, whose inputs are alike.
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

    def parameter_dims(self, name: str, shape: Shape) -> tuple[str, ...]:  # noqa: ARG002
        """Return the dims of a trained tensor that lies as its output does: of one number for each channel."""
        return ("channels",)

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


class Convolution(Contraction):
    """A weighted op whose filters meet an image in windows; subclasses say which windows.

    With ``groups`` the einsum has a dim ``groups`` in all three tensors; ``in_channels`` and ``out_channels`` then
    count the channels within a group.
    """

    out_channels: Size
    kernel: SizePair
    stride: SizePair = (1, 1)
    padding: CountPair = (0, 0)
    dilation: SizePair = (1, 1)
    groups: Size = 1
    bias: bool = True

    @property
    @abstractmethod
    def windows(self) -> Mapping[str, Window]:
        """The window along each spatial dim."""

    def windows_on(self, inputs: tuple[Shape, ...]) -> Mapping[str, Window]:  # noqa: ARG002
        """Return the window along each spatial dim."""
        return self.windows

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return ``out_channels`` by the outputs of the windows."""
        shape = image_input(inputs)
        for name, channels in (("in", shape["channels"]), ("out", self.out_channels)):
            if channels % self.groups:
                raise ShapeError(
                    f"found {channels} {name}_channels in {self.groups} groups;"
                    f" allowed: a multiple of {self.groups}"
                )
        spatial = {dim: window.output_size(shape[dim]) for dim, window in self.windows.items()}
        return {"channels": self.out_channels, **spatial}

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:
        """Return the elements of the filters and the biases."""
        return sum(self.parameters(inputs).values())

    def parameters(self, inputs: tuple[Shape, ...]) -> dict[str, int]:
        """Return the elements of the filters and the biases."""
        per_filter = image_input(inputs)["channels"] // self.groups * math.prod(self.kernel)
        bias = {"bias": self.out_channels} if self.bias else {}
        return {"weight": self.out_channels * per_filter, **bias}

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:
        """Return ``F_out[n,g,o,h,w] = F_in[n,g,i,h',w'] . W[g,i,o,r,s]`` for the h' and w' that the windows read."""
        shape = image_input(inputs)
        grouped = self.groups > 1
        # Channels cut inside every group are not the consecutive channels that a neighbour cuts.
        inner = "channels_in_group" if grouped else "channels"
        group_sizes = {"groups": self.groups} if grouped else {}
        group_dims = {"groups": "channels"} if grouped else {}
        spatial = {"height": "height", "width": "width"}
        return Einsum(
            sizes={
                "batch": batch,
                **group_sizes,
                "in_channels": shape["channels"] // self.groups,
                "out_channels": self.out_channels // self.groups,
                "height": output["height"],
                "width": output["width"],
                "kernel_height": self.kernel[0],
                "kernel_width": self.kernel[1],
            },
            input={"batch": "batch", **group_dims, "in_channels": inner, **spatial},
            weight=(*group_sizes, "in_channels", "out_channels", "kernel_height", "kernel_width"),
            output={"batch": "batch", **group_dims, "out_channels": inner, **spatial},
            input_elements=batch * elements_of(shape),
            windows=self.windows,
            input_sizes={"height": shape["height"], "width": shape["width"]},
            zeros=self.zeros,
        )


class Sliding(Convolution):
    """A convolution whose filters slide over an image."""

    @property
    def windows(self) -> Mapping[str, Window]:
        """The window along each spatial dim."""
        pairs = zip(self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return {
            dim: Window(kernel=kernel, stride=stride, padding=padding, dilation=dilation)
            for dim, (kernel, stride, padding, dilation) in zip(("height", "width"), pairs, strict=True)
        }


class Resampling(Op):
    """An op without a weight that reads an image in windows, channel by channel, and gives another.

    It is a node of the operator graph.
    """

    pools: ClassVar[bool] = True

    @abstractmethod
    def image_windows(self, shape: Shape) -> Mapping[str, Window]:
        """Return the window along each spatial dim of an input."""

    def windows_on(self, inputs: tuple[Shape, ...]) -> Mapping[str, Window]:
        """Return the window along each spatial dim."""
        return self.image_windows(image_input(inputs))

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the channels by the outputs of the windows."""
        shape = image_input(inputs)
        spatial = {dim: window.output_size(shape[dim]) for dim, window in self.image_windows(shape).items()}
        return {"channels": shape["channels"], **spatial}

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:
        """Return ``F_out[n,c,h,w]`` of ``F_in[n,c,h',w']``, channel by channel."""
        shape = image_input(inputs)
        dims = {"batch": "batch", **{dim: dim for dim in output}}
        return Einsum(
            sizes={"batch": batch, **output},
            input=dims,
            weight=(),
            output=dims,
            input_elements=batch * elements_of(shape),
            windows=self.image_windows(shape),
            input_sizes={"height": shape["height"], "width": shape["width"]},
        )


class Pointwise(Op):
    """An elementwise op."""

    flop_per_element: ClassVar[int] = 1


class Norm(Op):
    """A normalisation over some dims of each position, with a trained scale for each of their elements."""

    over: Names
    scale: bool = True

    @property
    def statistics_over(self) -> frozenset[str]:  # type: ignore[override]
        """The dims that it normalises over."""
        return frozenset(self.over)

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the input's shape."""
        shape = one_input(inputs)
        require_dims(shape, self.over)
        return shape

    def reduced(self, name: str, shape: Shape) -> frozenset[str]:
        """Return the dims that a sum runs over: the others for the gradient of a trained tensor."""
        if name in self.trained:
            return frozenset({"batch", *shape}) - frozenset(self.over)
        return frozenset(self.over)

    @property
    def trained(self) -> tuple[str, ...]:
        """The names of its trained tensors."""
        return ("weight",) if self.scale else ()

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:
        """Return the elements of its trained tensors."""
        return sum(self.parameters(inputs).values())

    def parameters(self, inputs: tuple[Shape, ...]) -> Mapping[str, int]:
        """Return the elements of each trained tensor."""
        shape = one_input(inputs)
        return dict.fromkeys(self.trained, math.prod(shape[dim] for dim in self.over))

    def parameter_dims(self, name: str, shape: Shape) -> tuple[str, ...]:  # noqa: ARG002
        """Return the dims of a trained tensor, in the order of the input."""
        return tuple(dim for dim in shape if dim in self.over)

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:
        """Return that it keeps its input, and the statistics of each position."""
        shape = one_input(inputs)
        positions = math.prod(size for dim, size in shape.items() if dim not in self.over)
        return Keeps(input=True, elements=len(self.statistics) * positions)


class Shares(Op):
    """A softmax over some dims: an exponential, an addition and a division an element."""

    flop_per_element: ClassVar[int] = 3
    statistics: ClassVar[tuple[str, ...]] = ("exponential",)
    back_statistics: ClassVar[tuple[str, ...]] = ("product",)
    over: Names

    @property
    def statistics_over(self) -> frozenset[str]:  # type: ignore[override]
        """The dims that are summed over."""
        return frozenset(self.over)

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the input's shape."""
        shape = one_input(inputs)
        require_dims(shape, self.over)
        return shape

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:  # noqa: ARG002
        """Return that it keeps its output."""
        return Keeps(output=True)


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
