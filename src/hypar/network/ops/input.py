"""The input of a network."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import model_validator

from hypar.network.named import Sized, missing
from hypar.network.ops.base import Op, Shape, Size
from hypar.network.windows import ShapeError


class Input(Op):
    """The shape of one sample: channels alone, an image, or with ``depth`` a volume; or ``shape``, dims that the model names."""

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
        if self.shape is not None and self.model_fields_set - {"shape"}:
            msg = "a shape takes no channels, depth, height or width beside it"
            raise ValueError(msg)
        return self

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Return the stated shape."""
        if inputs:
            raise ShapeError(f"found {len(inputs)} inputs; allowed: none")
        if self.shape is not None:
            return dict(self.shape)
        channels = self.channels or 1
        if self.height is None and self.width is None and self.depth is None:
            return {"channels": channels}
        if self.height is None or self.width is None:
            given = "one of height and width" if self.depth is None else "depth without height and width"
            msg = f"found {given}; allowed: both or neither"
            raise ShapeError(msg)
        image = {"height": self.height, "width": self.width}
        return {"channels": channels, **({} if self.depth is None else {"depth": self.depth}), **image}


plugin: type[Op] = Input
