"""The model file: its schema, and its reading."""

# Annotations are not postponed here: pydantic would parse the text of each one at every start.

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from hypar.errors import ModelError, shown
from hypar.files.validation import Record, validated
from hypar.files.yaml_file import Document
from hypar.ops.base import Size
from hypar.ops.dims import DimName, DimSize

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$")]
Reference = Annotated[str, Field(max_length=200)]
References = Annotated[
    list[Reference], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
]
Argument = int | float | bool | str | list[int]

MOST_REPEATS = 1000
"""Largest number of times that an entry repeats a block."""


class Block(Record):
    """A list of layers with parameters."""

    parameters: list[Name] = Field(default=[])
    layers: Annotated[list[dict[str, Any]], Field(min_length=1)]


class ModelFile(Record):
    """The whole file."""

    source: str
    batch: Size
    dtype: Literal["float64", "float32", "float16", "bfloat16"] = "float32"
    dims: dict[DimName, DimSize] = Field(default={})
    blocks: dict[Name, Block] = Field(default={})
    layers: Annotated[list[dict[str, Any]], Field(min_length=1)]


class LayerHead(Record):
    """The fields of every layer; the others are those of its op."""

    op: Name
    name: Name | None = None
    inputs: References | None = None


class BlockUse(Record):
    """The layers of a block, once, or repeated one behind the other and numbered."""

    block: Name
    name: Name
    inputs: References | None = None
    arguments: dict[Name, Argument] = Field(default={}, alias="with")
    repeat: Annotated[int, Field(ge=1, le=MOST_REPEATS)] | None = None


def read_model(document: Document) -> ModelFile:
    """Return the content of a model file, its layers not yet judged.

    Raises:
        ModelError: the document is not a model file.
    """
    if not isinstance(document.data, dict):
        raise ModelError(document.at(()), f"found {shown(document.data)}", "a mapping with layers")
    return validated(ModelFile, document.data, place=document.at, error=ModelError, every=True)
