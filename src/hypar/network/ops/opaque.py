"""An operation of which hypar knows the shapes alone."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from hypar.network.dims import LARGEST
from hypar.network.einsum import Einsum
from hypar.network.keeping import Keeps
from hypar.network.named import Sized, missing
from hypar.network.ops.base import Op, Shape, Size, elements_of
from hypar.network.windows import ShapeError


class Opaque(Op):
    """Any function of whole samples: it is cut in the batch alone, and counts no operations of its own.

    Importers write it where no other op says what a framework does; ``kind`` is the framework's name.
    """

    join: ClassVar[bool] = True
    whole: ClassVar[bool] = True
    sized: ClassVar[tuple[str, ...]] = ("shape",)
    kind: Annotated[str, Field(min_length=1, max_length=100)]
    channels: Size | None = None
    depth: Size | None = None
    height: Size | None = None
    width: Size | None = None
    shape: Sized | None = None
    trained: Annotated[int, Field(ge=0, le=LARGEST)] = 0

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
            msg = "a shape takes no channels, depth, height or width beside it"
            raise ValueError(msg)
        return self

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the stated shape."""
        if not inputs:
            raise ShapeError("found 0 inputs; allowed: 1 or more")
        if self.shape is not None:
            return dict(self.shape)
        if self.height is None and self.width is None and self.depth is None:
            return {"channels": self.channels or 1}
        if self.height is None or self.width is None:
            raise ShapeError("found one of height and width; allowed: both or neither")
        image = {"height": self.height, "width": self.width}
        return {
            "channels": self.channels or 1,
            **({} if self.depth is None else {"depth": self.depth}),
            **image,
        }

    def num_parameters(self, inputs: tuple[Shape, ...]) -> int:  # noqa: ARG002
        """Return the stated number."""
        return self.trained

    def keeps(self, inputs: tuple[Shape, ...]) -> Keeps:  # noqa: ARG002
        """Return that it keeps its inputs, of which its derivative may be a function."""
        return Keeps(input=True)

    def einsum(self, batch: int, inputs: tuple[Shape, ...], output: Shape) -> Einsum:
        """Return dims that cannot be cut, besides the batch."""
        return Einsum(
            sizes={"batch": batch, **{f"whole_{dim}": size for dim, size in output.items()}},
            input={"batch": "batch"},
            weight=(),
            output={"batch": "batch", **{f"whole_{dim}": dim for dim in output}},
            input_elements=batch * sum(elements_of(shape) for shape in inputs),
        )


plugin: type[Op] = Opaque
