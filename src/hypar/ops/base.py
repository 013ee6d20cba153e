"""The base of all ops, and the shapes and fields of several."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from operator import add
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from hypar.files.validation import AsNumber, Record
from hypar.ops.dims import KERNEL
from hypar.ops.nest import Axes, Nest, Operand, Projection, Saved, operand_name
from hypar.ops.run import Run
from hypar.ops.tape import Var, product
from hypar.ops.windows import Window, fits

LARGEST_SIZE = 2**24
"""Largest size of channels, height, width or a mini-batch."""

Size = Annotated[int, Field(ge=1, le=LARGEST_SIZE)]
Count = Annotated[int, Field(ge=0, le=LARGEST_SIZE)]
Shape = Mapping[str, int]
Facts = dict[str, Any]
IMAGE, VOLUME = ("channels", "height", "width"), ("channels", "depth", "height", "width")
Node = Literal["", "weight", "join", "pool"]
Zeros = Annotated[float, AsNumber, Field(ge=0, le=1)]
TWO, SEVERAL = (range(2, 3), "2"), (range(2, LARGEST_SIZE), "2 or more")


class Op(Record):
    """The kind of a layer: a frozen record, whose fields are those of the model file.

    A shape names the dims of one sample, ``{"channels": 64, "height": 56, "width": 56}`` or ``{"channels": 4096}``; every
    tensor has a ``batch`` dim besides. An op says what it makes of shapes, its nest, and its value as a forward expression;
    all else follows from these. Of its nest it says what differs from that of an op which gives a shape again.

    Attributes:
        node: why it is a node of the plan graph: it has a ``weight``, or it is a ``join`` of tensors, or a ``pool`` that makes
            an image of another size and is a node where pools are asked for; empty for an op that is fused behind another.
        sized: fields of dims with their sizes, which a model file may name alone.
        takes: the numbers of inputs that it accepts, and these in words.
        form: the dims that its input must have; any if empty.
        saved: what it keeps for its backward phase.
        operations: floating-point operations for each element of its output, of an op without a product.
        adds: whether its value is the sum of its operands, not their product.
    """

    node: ClassVar[Node] = ""
    sized: ClassVar[tuple[str, ...]] = ()
    takes: ClassVar[tuple[range, str]] = (range(1, 2), "1")
    form: ClassVar[tuple[str, ...]] = ()
    saved: ClassVar[Saved] = Saved()
    operations: ClassVar[int] = 0
    adds: ClassVar[bool] = False

    @model_validator(mode="after")
    def _together(self) -> Self:
        for allowed, refused in self._refusals().items():
            if refused:
                raise ValueError(allowed)
        return self

    def _refusals(self) -> dict[str, bool]:
        """Return what is allowed of fields that do not all stand together, and whether these break it."""
        return {}

    @property
    def tied(self) -> Any:
        """The layer whose weight it uses; None if it has its own."""
        return vars(self).get("weight")

    def _facts(self, *inputs: Any, **_: Any) -> Facts:  # noqa: ARG002
        """Return what its nest has besides one shape that is read and made, as attributes of a ``Nest`` for one sample.

        Besides it has:

        - ``windows``, those along dims of the first input, and ``places``, their outputs if other than they make;
        - ``made``, the axes of the output besides ``places``: by default those of the first input;
        - ``loops``, the loop dims with their sizes besides those that are made under their own names;
        - ``read``, the axes of each input besides windows: by default its dims;
        - ``trained``, the axes of each trained tensor;
        - ``elements``, what the first input counts as, if not its own;
        - ``fraction`` without ``products`` of one product of all loop dims.
        """
        return {}

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return the op as a loop nest, for a mini-batch of some inputs; raises ``ShapeError`` for ones that it refuses."""
        fits(len(inputs) in self.takes[0], f"{len(inputs)} inputs", self.takes[1])
        fits(not self.form or tuple(inputs[0]) == self.form, inputs, ", ".join(self.form))
        facts: Facts = {"saved": self.saved, "operations": self.operations, **self._facts(*inputs)}
        first: dict[str, int] = dict(*inputs[:1])
        windows, more, saved = facts.pop("windows", {}), facts.pop("more", (0, 0)), facts.pop("saved")
        places = facts.pop("places", None) or {
            dim: own.output_size(first[dim]) for dim, own in windows.items()
        }
        made = {"batch": batch, **facts.pop("made", first), **places}
        sizes = {dim: size for dim, size in made.items() if isinstance(size, int)} | facts.pop("loops", {})
        slid = {dim: Projection(first[dim], (dim, f"{KERNEL}{dim}"), own) for dim, own in windows.items()}
        read = [Operand.of({"batch": batch, **own, **slid}, sizes) for own in facts.pop("read", inputs)]
        operands = {operand_name(number): own for number, own in enumerate(read)}
        trained = facts.pop("trained", {})
        alone = self.node != "weight" or trained.keys() <= {"weight", "bias"}
        fits(alone, f"trained {', '.join(trained)}", "weight and bias; two weights are two layers")
        for name, axes in trained.items():
            operands[name] = Operand.of(axes, sizes, "weight" if name == self.node else "parameter")
        slides = windows.keys() - facts.get("whole", ())
        if "fraction" in facts:
            facts.setdefault("products", (tuple(sizes),))
        return Nest(
            sizes=sizes,
            operands=operands,
            result=Operand.of(made, sizes),
            input_elements=batch * facts.pop("elements", 0) or math.prod(read[0].shape),
            input_sizes={dim: first[dim] for dim in IMAGE[1:] if dim in slides},
            saved=saved._replace(elements=batch * saved.elements, mask_bytes=batch * saved.mask_bytes),
            operations=math.prod(sizes.values()) * facts.pop("operations"),
            more=tuple(batch * elements for elements in more),
            **facts,
        )

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the shape of one output sample, from that of each input; refuses what ``nest`` refuses."""
        _, *dims = self.nest(1, inputs).result.axes.items()
        return {dim: own.size for dim, own in dims}

    def value(self, run: Run) -> Var:
        """Return what a device computes of its piece, as a forward expression on its inputs and its weight."""
        return self._value(run, *(run.read(name) for name in run.nest.operands if name != "bias"))

    def _value(self, run: Run, *operands: Any, **_: Any) -> Var:
        """Return the value of an op's operands: by default their product, or their sum if it ``adds``."""
        return reduce(add, operands) if self.adds else product(operands, run.nest.result.dims)


class Sliding(Op):
    """An op that slides over the places of an image or a volume, each field a number for each dim of a place, or one for all."""

    form: ClassVar[tuple[str, ...]] = IMAGE
    transposed: ClassVar[bool] = False

    def along(self, **fields: Iterable[int]) -> dict[str, Window]:
        """Return the window along each dim of a place, from the numbers of each of its fields."""
        found = {}
        for dim, *own in zip(self.form[1:], *fields.values(), strict=True):
            found[dim] = Window(**dict(zip(fields, own, strict=True)), transposed=self.transposed)
        return found

    @field_validator(
        "kernel", "stride", "padding", "dilation", "output_padding", "scale", "margin", mode="before", check_fields=False
    )  # fmt: skip
    @classmethod
    def _places(cls, value: Any, info: ValidationInfo) -> Any:
        dims = cls.form[1:]
        if isinstance(value, int) and not isinstance(value, bool):
            return (value,) * len(dims)
        if isinstance(value, list | tuple) and len(value) == len(dims):
            return tuple(value)
        if value is None and cls.model_fields[info.field_name or ""].default is None:
            return None
        number = "two" if len(dims) == 2 else "three"
        raise ValueError(f"a whole number, or {number} of them as [{', '.join(dims)}]")


class Weighted(Op):
    """An op with a weight that it contracts.

    Attributes:
        input_zeros: fraction of zeros in what it reads; None if not known.
        output_zeros: fraction of zeros in what it writes, the ReLU behind it done; None if not known.
    """

    node = "weight"
    saved = Saved(input=True)
    input_zeros: Zeros | None = None
    output_zeros: Zeros | None = None

    def contraction(self, read: Axes, made: Axes, loops: Shape, **facts: Any) -> Facts:
        """Return the facts of a product of one input with a weight of some loop dims; a bias has those that are made."""
        windows: Mapping[str, Window] = facts.get("windows", {})
        weight = {**loops, **{f"{KERNEL}{dim}": own.kernel for dim, own in windows.items()}}
        trained = {"weight": {dim: dim for dim in weight}}
        if vars(self).get("bias"):
            trained["bias"] = {axis: own for axis, own in made.items() if not isinstance(own, int)}
        given = {"input": self.input_zeros, "output": self.output_zeros}
        zeros = {tensor: part for tensor, part in given.items() if part is not None}
        own = {"loops": weight, "read": [read], "made": made, "trained": trained, "zeros": zeros}
        return {**own, "whole": frozenset(windows if self.form != IMAGE else ()), **facts}


def need(shape: Shape, names: Collection[str]) -> None:
    """Raise ``ShapeError`` if an input lacks one of some dims."""
    missed = [name for name in names if name not in shape]
    fits(not missed, [shape], f"one with {', '.join(missed)}")
