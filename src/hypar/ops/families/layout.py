"""Ops that compute nothing of their own: inputs, other forms of the same elements, and operations of which shapes alone are known."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from hypar.ops.base import LARGEST_SIZE, SEVERAL, Facts, Op, Shape, Size, elements_of, fits, need
from hypar.ops.dims import KERNEL, LARGEST, Sized, prefixed
from hypar.ops.operands import Projection, Saved, Sum
from hypar.ops.tape import Var
from hypar.ops.windows import Window

if TYPE_CHECKING:
    from hypar.ops.run import Run


class Stated(Op):
    """A shape that the model file states: channels alone, an image, or with ``depth`` a volume; or ``shape``, dims that it names."""

    sized = ("shape",)
    either = ("channels", "shape")
    channels: Size | None = None
    depth: Size | None = None
    height: Size | None = None
    width: Size | None = None
    shape: Sized | None = None

    def _refusals(self) -> dict[str, bool]:
        beside = bool({"channels", "depth", "height", "width"} & self.model_fields_set)
        return {"a shape takes no channels, depth, height or width beside it": bool(self.shape) and beside}

    def stated(self) -> Shape:
        """Return the stated shape."""
        if self.shape is not None:
            return dict(self.shape)
        places = {"depth": self.depth, "height": self.height, "width": self.width}
        given = {dim: size for dim, size in places.items() if size is not None}
        fits(len({*given} & {"height", "width"}) != 1, "one of height and width", "both or neither")
        fits([*given] != ["depth"], "depth without height and width", "both or neither")
        return {"channels": self.channels or 1, **given}


class Input(Stated):
    """The shape of one sample that a network reads, whose data stand for an input."""

    takes = (range(1), "inputs; allowed: none")

    def _facts(self) -> Facts:
        return {"made": self.stated(), "read": [self.stated()]}


class Opaque(Stated):
    """Any function of whole samples: it is cut in the batch alone, and counts no operations of its own.

    Importers write it where no other op says what a framework does; ``kind`` is the framework's name.
    """

    node = "join"
    takes = (range(1, LARGEST_SIZE), "inputs; allowed: 1 or more")
    saved = Saved(input=True)
    kind: Annotated[str, Field(min_length=1, max_length=100)]
    trained: Annotated[int, Field(ge=0, le=LARGEST)] = 0

    def _facts(self, *inputs: Shape) -> Facts:
        """Return dims that cannot be cut, besides the batch; its derivative may be a function of its inputs."""
        by, whole = prefixed("whole_", self.stated())
        trained = {"weight": {"numbers": Projection(self.trained)}} if self.trained else {}
        read = [_whole(shape) for shape in inputs]
        return {
            "made": by,
            "loops": whole,
            "read": read,
            "trained": trained,
            "elements": sum(map(elements_of, inputs)),
        }

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
    """A view of all dims of a sample as channels: a vector, which its input is in another form."""

    def _facts(self, shape: Shape) -> Facts:
        return {"made": {"channels": elements_of(shape)}, "read": [_whole(shape)], "view": True}


def _whole(shape: Shape) -> dict[str, Projection]:
    """Return the axes of a tensor that is read whole."""
    return {dim: Projection(size) for dim, size in shape.items()}


class Concat(Op):
    """A join along ``channels``. With channels cut, a device holds its shard of every input's channels."""

    node = "join"
    takes = SEVERAL
    adds = True

    def _facts(self, *inputs: Shape) -> Facts:
        """Return the inputs' shape with their channels added up, of which each input has some; the other dims must agree."""
        for shape in inputs[1:]:
            alike = dict(shape) | {"channels": 0} == dict(inputs[0]) | {"channels": 0}
            fits(alike, (inputs[0], shape), "equal but for channels")
        made = {**inputs[0], "channels": sum(shape["channels"] for shape in inputs)}
        begins = accumulate((shape["channels"] for shape in inputs), initial=0)
        read = [
            {**shape, "channels": Projection(shape["channels"], ("channels",), first=first)}
            for shape, first in zip(inputs, begins, strict=False)
        ]
        return {"made": made, "read": read, "elements": elements_of(made), "passes": True}


class Token(Op):
    """The positions of ``over``, and before them one that is trained, as the class token of a vision transformer."""

    over: str = "sequence"

    def _facts(self, shape: Shape) -> Facts:
        """Return one position more, of which each reads the one before it, and the first one the token."""
        need(shape, [self.over])
        own = {dim: size for dim, size in shape.items() if dim != self.over}
        return {
            "made": {**shape, self.over: shape[self.over] + 1},
            "windows": {self.over: Window(kernel=1, padding=1)},
            "trained": {"weight": own},
            "sums": {"weight": Sum(tuple(own), backward=True)},
        }

    def _value(self, run: Run, read: Var, token: Var) -> Var:
        first = Var((self.over,), run.index(self.over) == 0)
        return read.sum([f"{KERNEL}{self.over}"]) + token * first


plugins: dict[str, type[Op]] = {
    "concat": Concat, "flatten": Flatten, "input": Input, "opaque": Opaque, "token": Token,
}  # fmt: skip
