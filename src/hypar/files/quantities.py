"""Quantities of a hardware file: numbers with a unit and a source."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from hypar.files.validation import Record, only
from hypar.units import parse_quantity

MOST = 1e30
"""Largest quantity in hypar's own units; its inverse is the least divisor."""


def _number(value: Any) -> Any:
    """Convert an exponent without a point, such as 1e-3, which YAML reads as a text."""
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value


def quantity(kind: str) -> BeforeValidator:
    """Return the validator of a number with a unit of a kind, as ``seconds``, or of a plain number."""
    return BeforeValidator(partial(parse_quantity, kind=kind))


_EXPONENT = re.compile(r"[+-]?[0-9]+[eE][+-]?[0-9]{1,3}")
AsNumber = BeforeValidator(_number)
_SIZE, _AMOUNT = Field(gt=0, le=MOST), Field(ge=0, le=MOST)
_NOT_TINY = only(lambda number: number >= 1 / MOST, f"at least {1 / MOST:g}")

Bytes = Annotated[float, quantity("bytes"), _SIZE, _NOT_TINY]
BytesPerSecond = Annotated[float, quantity("bytes_per_s"), _SIZE, _NOT_TINY]
FlopPerSecond = Annotated[float, quantity("flop_per_s"), _SIZE, _NOT_TINY]
Hertz = Annotated[float, quantity("hertz"), _SIZE, _NOT_TINY]
Joules = Annotated[float, quantity("joules"), _AMOUNT]
Seconds = Annotated[float, quantity("seconds"), _AMOUNT]
Watts = Annotated[float, quantity("watts"), _AMOUNT]
Count = Annotated[int, Field(ge=1, le=2**20)]
Part = Annotated[float, AsNumber, Field(gt=0, le=1), _NOT_TINY]
Text = Annotated[str, Field(max_length=1000), only(str.strip, "a text that is not empty")]

Value = TypeVar("Value")


class Sourced(Record, Generic[Value]):
    """A quantity in hypar's own unit, with paper and section, datasheet and page, or the reason for assuming it."""

    value: Value
    source: Text

    @model_validator(mode="before")
    @classmethod
    def _with_source(cls, given: Any) -> Any:
        if not isinstance(given, dict | Sourced):
            raise ValueError("a mapping with value and source")  # noqa: TRY004 (pydantic's own protocol)
        return given
