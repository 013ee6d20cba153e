"""The fields of ops that name dims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from hypar.network.dims import KERNEL, LARGEST, NAME, atom_of

if TYPE_CHECKING:
    from pydantic_core import InitErrorDetails

RESERVED = frozenset({"batch", "input", "output", "weight", "working", "copies"})
"""Names that dims of a model may not have."""


def _dim_name(name: str) -> str:
    """Check the name of a dim."""
    if not NAME.fullmatch(name) or name in RESERVED or atom_of(name) != name or name.startswith(KERNEL):
        msg = (
            "a dim's name of two or more small letters and _, without in_, out_, key_ or kernel_ before it,"
            f" none of {', '.join(sorted(RESERVED))}"
        )
        raise ValueError(msg)
    return name


DimName = Annotated[str, AfterValidator(_dim_name)]


def _as_names(value: Any) -> Any:
    """Return one name as a tuple, and a list of names as a tuple."""
    found = (value,) if isinstance(value, str) else value
    if isinstance(found, list | tuple) and found and all(isinstance(name, str) for name in found):
        return tuple(found)
    msg = "a dim's name, or a list of them"
    raise ValueError(msg)


def _as_pairs(value: Any) -> Any:
    """Return a mapping of names as pairs, and one name or a list of them as pairs of each with itself."""
    if isinstance(value, dict) and value and all(isinstance(name, str) for name in value.values()):
        return tuple(value.items())
    return tuple((name, name) for name in _as_names(value))


def _as_sized(value: Any) -> Any:
    """Return a mapping of dims to sizes as pairs."""
    if isinstance(value, dict) and value:
        return tuple(value.items())
    if isinstance(value, list | tuple) and value:
        return tuple(tuple(pair) if isinstance(pair, list) else pair for pair in value)
    msg = "dims that the file declares, or dims with their sizes"
    raise ValueError(msg)


DimSize = Annotated[int, Field(ge=1, le=LARGEST)]
Names = Annotated[tuple[str, ...], BeforeValidator(_as_names)]
Pairs = Annotated[tuple[tuple[str, str], ...], BeforeValidator(_as_pairs)]
Sized = Annotated[tuple[tuple[DimName, DimSize], ...], BeforeValidator(_as_sized)]
"""Dims with their sizes; a model file may give names alone, of the dims that it declares."""


def missing(field: str, data: Any) -> ValidationError:
    """Return the error of a field that is missing because no field in its place is given."""
    line: InitErrorDetails = {"type": "missing", "loc": (field,), "input": data}
    return ValidationError.from_exception_data("op", [line])
