"""The base of all ops: an op states its dims once; shapes, parameters, work and cuts follow from them.

An op is a frozen pydantic model, whose fields are those of the model file. A shape names the dims of one
sample, ``{"channels": 64, "height": 56, "width": 56}`` or ``{"channels": 4096}``; every tensor has a
``batch`` dim besides. Weighted ops and joins describe themselves as an einsum over named dims.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import BeforeValidator, Field

from hypar.files.record import Record
from hypar.network.training import PHASES

LARGEST_SIZE = 2**24
"""Largest size of a dim or a mini-batch."""

Size = Annotated[int, Field(ge=1, le=LARGEST_SIZE)]
Count = Annotated[int, Field(ge=0, le=LARGEST_SIZE)]
Shape = Mapping[str, int]
IMAGE = ("channels", "height", "width")


class ShapeError(ValueError):
    """Input shapes that an op does not accept; the graph adds the layer and the file."""


def _as_pair(value: Any) -> Any:
    """Return one number as both height and width, and a list of two as a tuple."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value, value
    if isinstance(value, list | tuple) and len(value) == 2:
        return tuple(value)
    msg = "a whole number, or two of them as [height, width]"
    raise ValueError(msg)


SizePair = Annotated[tuple[Size, Size], BeforeValidator(_as_pair)]
CountPair = Annotated[tuple[Count, Count], BeforeValidator(_as_pair)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A sliding window along one spatial dim."""

    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1

    @property
    def extent(self) -> int:
        """Number of input elements from the first to the last that one output element reads."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def halo(self) -> int:
        """Number of elements that two neighbouring shards both read: the extent beyond a stride."""
        return max(0, self.extent - self.stride)

    def output_size(self, size: int, *, round_up: bool = False) -> int:
        """Return the number of places of the window on ``size`` elements.

        Raises:
            ShapeError: the window is larger than the padded input.
        """
        room = size + 2 * self.padding - self.extent
        if room < 0:
            raise ShapeError(
                f"found a window of {self.extent} on {size} elements padded by {self.padding};"
                f" allowed: at most {size + 2 * self.padding}"
            )
        if not round_up:
            return room // self.stride + 1
        places = -(-room // self.stride) + 1
        # The last window must start on the input or its padding before it, not wholly past them.
        return places - ((places - 1) * self.stride >= size + self.padding)


class Roles(NamedTuple):
    """The op dims of each tensor of a layer, without sizes.

    Attributes:
        input: op dims of F_in and E_in.
        weight: op dims of W and dW.
        output: op dims of F_out and E_out.
    """

    input: tuple[str, ...]
    weight: tuple[str, ...]
    output: tuple[str, ...]

    def dims(self, tensor: str) -> frozenset[str]:
        """Return the op dims of a tensor."""
        carried: frozenset[str] = frozenset(getattr(self, tensor))
        return carried


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Einsum:
    """A layer's three phases as contractions of three tensors over named dims.

    Forward ``F_out = F_in . W``, backward ``E_in = E_out . W'``, gradient ``dW = F_in' . E_out``. A dim
    of the op is one dim of a tensor, under the tensor's own name for it: the ``in_channels`` of the op
    are the ``channels`` of F_in. Einsums are compared by identity, so results can be cached by einsum.

    Attributes:
        sizes: size of each op dim; height and width are those of the output. Whole numbers, except that an uneven split
            into fractional shares may give its dim a real size.
        input: op dims that F_in and E_in carry, with the tensor's name for each.
        weight: op dims that W and dW carry.
        output: op dims that F_out and E_out carry, with the tensor's name for each.
        input_elements: elements of F_in.
        windows: windows on F_in along the op's spatial dims.
        input_sizes: sizes of F_in along those dims.
    """

    sizes: Mapping[str, int]
    input: Mapping[str, str]
    weight: tuple[str, ...]
    output: Mapping[str, str]
    input_elements: int
    windows: Mapping[str, Window] = field(default_factory=dict)
    input_sizes: Mapping[str, int] = field(default_factory=dict)

    def dims(self, tensor: str) -> frozenset[str]:
        """Return the op dims of a tensor: ``input``, ``weight`` or ``output``."""
        carried: frozenset[str] = frozenset(getattr(self, tensor))
        return carried

    @property
    def content(self) -> object:
        """A key that einsums of equal fields share, as joins of two and of three inputs do."""
        mappings = (self.sizes, self.input, self.output, self.windows, self.input_sizes)
        return self.weight, self.input_elements, *[tuple(mapping.items()) for mapping in mappings]

    def unsized(self) -> Einsum:
        """Return the einsum of the same dims without sizes; einsums with equal dims share one object."""
        return _unsized(tuple(self.input.items()), self.weight, tuple(self.output.items()))

    @property
    def roles(self) -> Roles:
        """The op dims of each tensor."""
        return Roles(tuple(self.input), self.weight, tuple(self.output))

    def elements(self, tensor: str) -> int:
        """Return the elements of the whole tensor; 0 for the weight of an op without one."""
        if tensor == "input":
            return self.input_elements
        dims: tuple[str, ...] = tuple(getattr(self, tensor))
        return math.prod([self.sizes[dim] for dim in dims]) if dims else 0

    @property
    def macs(self) -> int:
        """Number of multiply-accumulates in the forward phase; 0 without a weight."""
        return math.prod(self.sizes.values()) if self.weight else 0

    def flop(self, phase: str) -> int:
        """Return the floating-point operations of a phase: ``2 n - 1`` for every result element that contracts n terms.

        A contraction of less than one term, which a fractional share may leave, needs no additions.

        Source: AccPar (HPCA 2020), the operation counts of its computation cost.
        """
        result = PHASES[phase].result
        contracted = math.prod(size for dim, size in self.sizes.items() if dim not in self.dims(result))
        return self.elements(result) * (contracted + max(0, contracted - 1)) if self.macs else 0


@lru_cache(maxsize=1024)
def _unsized(
    carried: tuple[tuple[str, str], ...], weight: tuple[str, ...], left: tuple[tuple[str, str], ...]
) -> Einsum:
    return Einsum(sizes={}, input=dict(carried), weight=weight, output=dict(left), input_elements=0)


class Op(Record):
    """The kind of a layer. Subclasses add the fields that a model file may give.

    Attributes:
        weighted: whether it has a weight to cut.
        join: whether it combines several tensors.
        pools: whether it reduces an image, so that it is a node of the operator graph.
        view: whether its output is its input in another shape, without memory of its own.
        flop_per_element: floating-point operations on each input element, for an op without a weight.
    """

    weighted: ClassVar[bool] = False
    join: ClassVar[bool] = False
    pools: ClassVar[bool] = False
    view: ClassVar[bool] = False
    flop_per_element: ClassVar[int] = 0

    def contracts(self, inputs: tuple[Shape, ...]) -> frozenset[str]:  # noqa: ARG002
        """Return the dims that an op without a weight reduces to one element by a sum or a comparison."""
        return frozenset()

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


class Pointwise(Op):
    """An elementwise op."""

    flop_per_element: ClassVar[int] = 1


def one_input(inputs: tuple[Shape, ...]) -> Shape:
    """Return the only input of an op with one input.

    Raises:
        ShapeError: the op has no input or several.
    """
    if len(inputs) != 1:
        raise ShapeError(f"found {len(inputs)} inputs; allowed: 1")
    return inputs[0]


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

    Example:
        >>> describe({"channels": 3, "height": 224, "width": 224})
        '3x224x224 (channels, height, width)'
    """
    return "x".join(str(size) for size in shape.values()) + f" ({', '.join(shape)})"
