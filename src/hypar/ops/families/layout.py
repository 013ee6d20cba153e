"""Ops that compute nothing of their own: inputs, other forms of the same elements, and operations of which shapes alone are known."""

from __future__ import annotations

import math
from functools import reduce
from itertools import accumulate
from operator import add
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from hypar.ops.base import Node, Op, Shape, Size, describe, elements_of, one_input, prefixed, same_shape, slid
from hypar.ops.dims import KERNEL, LARGEST, Sized, missing
from hypar.ops.nest import Nest
from hypar.ops.operands import Projection, Saved, Sum
from hypar.ops.tape import Var
from hypar.ops.windows import ShapeError, Window

if TYPE_CHECKING:
    from hypar.ops.run import Run


class Stated(Op):
    """A shape that the model file states: channels alone, an image, or with ``depth`` a volume; or ``shape``, dims that it names."""

    sized: ClassVar[tuple[str, ...]] = ("shape",)
    channels: Size | None = None
    depth: Size | None = None
    height: Size | None = None
    width: Size | None = None
    shape: Sized | None = None

    @model_validator(mode="before")
    @classmethod
    def _some(cls, data: Any) -> Any:
        """Require channels where there is no shape."""
        if isinstance(data, dict) and not {"channels", "shape"} & {*data}:
            raise missing("channels", data)
        return data

    @model_validator(mode="after")
    def _channels_or_shape(self) -> Self:
        """Require channels or a shape."""
        if self.shape is not None and {"channels", "depth", "height", "width"} & self.model_fields_set:
            raise ValueError("a shape takes no channels, depth, height or width beside it")
        return self

    def stated(self) -> Shape:
        """Return the stated shape."""
        if self.shape is not None:
            return dict(self.shape)
        places = {"depth": self.depth, "height": self.height, "width": self.width}
        given = {dim: size for dim, size in places.items() if size is not None}
        if len({*given} & {"height", "width"}) == 1:
            raise ShapeError("found one of height and width; allowed: both or neither")
        if [*given] == ["depth"]:
            raise ShapeError("found depth without height and width; allowed: both or neither")
        return {"channels": self.channels or 1, **given}


class Input(Stated):
    """The shape of one sample that a network reads."""

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return the nest of the data, which stand for an input."""
        if inputs:
            raise ShapeError(f"found {len(inputs)} inputs; allowed: none")
        return same_shape(batch, (self.stated(),))


class Opaque(Stated):
    """Any function of whole samples: it is cut in the batch alone, and counts no operations of its own.

    Importers write it where no other op says what a framework does; ``kind`` is the framework's name.
    """

    node: ClassVar[Node] = "join"
    kind: Annotated[str, Field(min_length=1, max_length=100)]
    trained: Annotated[int, Field(ge=0, le=LARGEST)] = 0

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return dims that cannot be cut, besides the batch; its derivative may be a function of its inputs."""
        if not inputs:
            raise ShapeError("found 0 inputs; allowed: 1 or more")
        by, whole = prefixed("whole_", self.stated())
        read = [{dim: Projection(size) for dim, size in shape.items()} for shape in inputs]
        trained = {"weight": {"numbers": Projection(self.trained)}} if self.trained else {}
        elements = batch * sum(elements_of(shape) for shape in inputs)
        return Nest.of(
            batch, whole, read, by, trained=trained, saved=Saved(input=True), input_elements=elements
        )

    def value(self, run: Run) -> Var:
        """Return as a stand-in the sum of all elements of each sample, over the root of their number."""
        total = Var((), 0.0)
        for number, own in enumerate(run.nest.inputs):
            rest = [axis for axis in own.axes if axis != "batch"]
            total = total + run.input(number).sum(rest) * (1 / math.sqrt(math.prod(own.shape[1:])))
        for dim in run.nest.result.dims[1:]:
            total = total + run.place(dim) * 0.0
        return total


class Flatten(Op):
    """A view of all dims of a sample as channels."""

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return the nest of the vector, which its input is in another form."""
        shape = one_input(inputs)
        made = {"channels": elements_of(shape)}
        return Nest.of(batch, made, [{dim: Projection(size) for dim, size in shape.items()}], made, view=True)


class Concat(Op):
    """A join along ``channels``. With channels cut, a device holds its shard of every input's channels."""

    node: ClassVar[Node] = "join"

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return the inputs' shape with their channels added up, of which each input has some; the other dims must agree."""
        if len(inputs) < 2:
            raise ShapeError(f"found {len(inputs)} input; allowed: 2 or more")
        first = dict(inputs[0])
        for shape in inputs[1:]:
            if dict(shape) | {"channels": 0} != first | {"channels": 0}:
                raise ShapeError(
                    f"found {describe(first)} and {describe(shape)}; allowed: equal but for channels"
                )
        made = first | {"channels": sum(shape["channels"] for shape in inputs)}
        begins = accumulate((shape["channels"] for shape in inputs), initial=0)
        read = [
            {**shape, "channels": Projection(shape["channels"], ("channels",), first=first)}
            for shape, first in zip(inputs, begins, strict=False)
        ]
        return Nest.of(batch, made, read, made, input_elements=batch * elements_of(made), passes=True)

    def value(self, run: Run) -> Var:
        """Return the channels of all inputs, each of which is zero at the others'."""
        return reduce(add, (run.input(number) for number in range(len(run.nest.inputs))))


class Token(Op):
    """The positions of ``over``, and before them one that is trained, as the class token of a vision transformer."""

    over: str = "sequence"

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return one position more, of which each reads the one before it, and the first one the token."""
        shape = one_input(inputs, self.over)
        made = {**shape, self.over: shape[self.over] + 1}
        before = slid(shape, {self.over: Window(kernel=1, padding=1)})
        own = {dim: size for dim, size in made.items() if dim != self.over}
        sums = {"weight": Sum(tuple(own), backward=True)}
        return Nest.of(batch, made, [{**shape, **before}], made, trained={"weight": own}, sums=sums)

    def value(self, run: Run) -> Var:
        """Return the token at the first position, and the positions behind it one further on."""
        first = Var((self.over,), run.index(self.over) == 0)
        return run.input().sum([f"{KERNEL}{self.over}"]) + run.parameter() * first


plugins: dict[str, type[Op]] = {
    "concat": Concat, "flatten": Flatten, "input": Input, "opaque": Opaque, "token": Token,
}  # fmt: skip
