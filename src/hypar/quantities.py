"""What a hardware file may say: a quantity with its unit, and where it comes from."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from hypar.units import parse_quantity

MOST = 1e30
"""No quantity is larger, in hypar's own units."""

_AT_LEAST_0 = Field(ge=0, le=MOST)
_MORE_THAN_0 = Field(gt=0, le=MOST)

Bytes = Annotated[float, BeforeValidator(partial(parse_quantity, kind="bytes")), _MORE_THAN_0]
BytesPerSecond = Annotated[float, BeforeValidator(partial(parse_quantity, kind="bytes_per_s")), _MORE_THAN_0]
FlopPerSecond = Annotated[float, BeforeValidator(partial(parse_quantity, kind="flop_per_s")), _MORE_THAN_0]
Hertz = Annotated[float, BeforeValidator(partial(parse_quantity, kind="hertz")), _MORE_THAN_0]
Joules = Annotated[float, BeforeValidator(partial(parse_quantity, kind="joules")), _AT_LEAST_0]
Seconds = Annotated[float, BeforeValidator(partial(parse_quantity, kind="seconds")), _AT_LEAST_0]
Count = Annotated[int, Field(ge=1, le=2**20)]
Part = Annotated[float, Field(gt=0, le=1)]
Text = Annotated[str, Field(min_length=1, max_length=1000)]

Value = TypeVar("Value")


class Description(BaseModel):
    """A part of a hardware file: unknown keys are refused, and a text is not a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Sourced(Description, Generic[Value]):
    """A number with the place where it is published, or the reason why it is assumed.

    Attributes:
        value: the quantity, in hypar's own unit.
        source: paper and section, datasheet and page, or why it is so.
    """

    value: Value
    source: Text
