"""Ops that give elements at other places, inputs, and operations of which shapes alone are known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from hypar.ops.base import SEVERAL, VOLUME, Count, Facts, Op, Shape, Size, describe, fits, need
from hypar.ops.dims import KERNEL, LARGEST, Sized, prefixed
from hypar.ops.nest import Projection, Saved, Sum
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

    def _stated(self) -> Shape:
        if self.shape is not None:
            return dict(self.shape)
        given = {dim: size for dim in VOLUME[1:] if (size := getattr(self, dim)) is not None}
        fits(len({*given} & {"height", "width"}) != 1, "one of height and width", "both or neither")
        fits([*given] != ["depth"], "depth without height and width", "both or neither")
        return {"channels": self.channels or 1, **given}


class Input(Stated):
    """The shape of one sample that a network reads, whose data stand for an input."""

    takes = (range(1), "inputs; allowed: none")

    def _facts(self) -> Facts:
        return {"made": self._stated(), "read": [self._stated()]}


class Opaque(Stated):
    """Any function of whole samples: it is cut in the batch alone, and counts no operations of its own.

    Importers write it where no other op says what a framework does; ``kind`` is the framework's name.
    """

    node = "join"
    takes = (range(1, SEVERAL[0].stop), "inputs; allowed: 1 or more")
    saved = Saved(input=True)
    kind: Annotated[str, Field(min_length=1, max_length=100)]
    trained: Annotated[int, Field(ge=0, le=LARGEST)] = 0

    def _facts(self, *inputs: Shape) -> Facts:
        """Return dims that cannot be cut, besides the batch; its derivative may be a function of its inputs."""
        by, whole = prefixed("whole_", self._stated())
        trained = {"weight": {"numbers": Projection(self.trained)}} if self.trained else {}
        read = [{dim: Projection(size) for dim, size in shape.items()} for shape in inputs]
        facts = {"made": by, "loops": whole, "read": read, "trained": trained}
        return {**facts, "elements": sum(math.prod(shape.values()) for shape in inputs)}

    def value(self, run: Run) -> Var:
        """Return as a stand-in the sum of all elements of each sample, over the root of their number."""
        terms = [run.place(dim) * 0.0 for dim in run.nest.result.dims[1:]]
        for number, own in enumerate(run.nest.inputs):
            read = run.input(number)
            terms.append(read.sum(read.dims[1:]) * (1 / math.sqrt(math.prod(own.shape[1:]))))
        return sum(terms, Var((), 0.0))


class Flatten(Op):
    """A view of all dims of a sample as channels: a vector, which its input is in another form."""

    def _facts(self, shape: Shape) -> Facts:
        read = [{dim: Projection(size) for dim, size in shape.items()}]
        return {"made": {"channels": math.prod(shape.values())}, "read": read, "view": True}


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
        sizes = [shape["channels"] for shape in inputs]
        made = {**inputs[0], "channels": sum(sizes)}
        read = [
            {**shape, "channels": Projection(size, ("channels",), Window(kernel=1, padding=sum(sizes[:at])))}
            for at, (shape, size) in enumerate(zip(inputs, sizes, strict=True))
        ]
        return {"made": made, "read": read, "elements": math.prod(made.values()), "passes": True}


class Token(Op):
    """The positions of ``over``, and before them one that is trained, as the class token of a vision transformer."""

    adds = True
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


class Select(Op):
    """The position ``index`` of the dim ``over``, which is left with one position, as that of the class token."""

    over: str = "sequence"
    index: Count = 0

    def _facts(self, shape: Shape) -> Facts:
        need(shape, [self.over])
        size = shape[self.over]
        fits(self.index < size, f"index {self.index} of {describe(shape)}", f"below {size}")
        window = Window(kernel=1, padding=-self.index)
        return {"made": {**shape, self.over: 1}, "windows": {self.over: window}}


plugins: dict[str, type[Op]] = {
    "concat": Concat, "flatten": Flatten, "input": Input, "opaque": Opaque, "select": Select, "token": Token,
}  # fmt: skip
