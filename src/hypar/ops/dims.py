"""The dims that choices divide: the seven of convolutions and joins, and those that a model names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

CUTTABLE = ("batch", "in_channels", "out_channels", "height", "width", "groups", "channels")
"""The dims of convolutions, vectors and joins that a choice may divide."""

LARGEST = 2**40
"""Largest size of a dim that a model names."""

NAME = re.compile(r"[a-z][a-z_]+")

READ, MADE, CONTRACTED = "in_", "out_", "key_"
"""Prefixes of a named dim that an op contracts with its weight, makes with it, or contracts between two activations."""

KERNEL = "kernel_"
"""Prefix of the dims of a window, which no choice divides."""


def atom_of(dim: str) -> str:
    """Return the name in the model of an op's dim.

    Examples:
        >>> atom_of("in_hidden"), atom_of("key_sequence"), atom_of("sequence")
        ('hidden', 'sequence', 'sequence')
    """
    for prefix in (READ, MADE, CONTRACTED):
        if dim.startswith(prefix):
            return dim.removeprefix(prefix)
    return dim


def prefixed(prefix: str, sizes: Mapping[str, int]) -> tuple[dict[str, str], dict[str, int]]:
    """Return axes that loop dims of their names with a prefix index, and these loop dims with their sizes."""
    return {dim: f"{prefix}{dim}" for dim in sizes}, {f"{prefix}{dim}": size for dim, size in sizes.items()}


def in_order(dims: Iterable[str]) -> list[str]:
    """Return dims in the order of plan files: those of ``CUTTABLE``, then the others by the names of their atoms.

    The order depends on names alone, so that two layers number their devices alike wherever they divide the same atoms.

    Examples:
        >>> in_order({"sequence", "in_hidden", "batch", "in_channels"})
        ['batch', 'in_channels', 'in_hidden', 'sequence']
    """

    def rank(dim: str) -> tuple[int, str, str]:
        return (CUTTABLE.index(dim), "", "") if dim in CUTTABLE else (len(CUTTABLE), atom_of(dim), dim)

    return sorted(dims, key=rank)


# The fields of ops that name dims

RESERVED = frozenset({"batch", "input", "output", "weight", "working", "copies"})
"""Names that dims of a model may not have."""


def _dim_name(name: str) -> str:
    if not NAME.fullmatch(name) or name in RESERVED or atom_of(name) != name or name.startswith(KERNEL):
        raise ValueError(
            "a dim's name of two or more small letters and _, without in_, out_, key_ or kernel_ before it,"
            f" none of {', '.join(sorted(RESERVED))}"
        )
    return name


DimName = Annotated[str, AfterValidator(_dim_name)]


def _as_names(value: Any) -> Any:
    found = (value,) if isinstance(value, str) else value
    if isinstance(found, list | tuple) and found and all(isinstance(name, str) for name in found):
        return tuple(found)
    raise ValueError("a dim's name, or a list of them")


def _as_pairs(value: Any) -> Any:
    if isinstance(value, dict) and value and all(isinstance(name, str) for name in value.values()):
        return tuple(value.items())
    return tuple((name, name) for name in _as_names(value))


def _as_sized(value: Any) -> Any:
    if isinstance(value, dict | tuple) and value:
        return tuple(value.items() if isinstance(value, dict) else value)
    raise ValueError("dims that the file declares, or dims with their sizes")


DimSize = Annotated[int, Field(ge=1, le=LARGEST)]
Names = Annotated[tuple[str, ...], BeforeValidator(_as_names)]
Pairs = Annotated[tuple[tuple[str, str], ...], BeforeValidator(_as_pairs)]
Sized = Annotated[tuple[tuple[DimName, DimSize], ...], BeforeValidator(_as_sized)]
"""Dims with their sizes; a model file may give names alone, of the dims that it declares."""

OneName = Annotated[Names, Field(max_length=1)]
OneSized = Annotated[Sized, Field(max_length=1)]
