"""Schema of a model file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from hypar.network.ops.base import Size

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$")]
Reference = Annotated[str, Field(max_length=200)]
References = Annotated[
    list[Reference], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
]
Argument = int | float | bool | str | list[int]


class Strict(BaseModel):
    """A model without unknown keys or conversion of texts to numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Block(Strict):
    """A list of layers with parameters."""

    parameters: list[Name] = []
    layers: Annotated[list[dict[str, Any]], Field(min_length=1)]


class ModelFile(Strict):
    """A whole model file."""

    source: str
    batch: Size
    dtype: Literal["float64", "float32", "float16", "bfloat16"] = "float32"
    blocks: dict[Name, Block] = {}
    layers: Annotated[list[dict[str, Any]], Field(min_length=1)]


class SameAs(Strict):
    """An alias: another name for the model in a file of the same folder."""

    same_as: Name


class LayerHead(Strict):
    """The fields common to all layers; the others belong to the op."""

    op: Name
    name: Name | None = None
    inputs: References | None = None


class BlockUse(Strict):
    """A use of a block's layers, once or repeated in sequence and numbered."""

    block: Name
    name: Name
    inputs: References | None = None
    arguments: dict[Name, Argument] = Field(default={}, alias="with")
    repeat: Annotated[int, Field(ge=1, le=1000)] | None = None
