"""The dims that choices divide: the seven of convolutions and joins, and those that a model names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

CUTTABLE = ("batch", "in_channels", "out_channels", "height", "width", "groups", "channels")
"""The dims of convolutions, vectors and joins that a choice may divide."""

LARGEST = 2**40
"""Largest size of a dim that a model names."""

NAME = re.compile(r"[a-z][a-z_]+")
"""The form of a dim's name in a model."""

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


def like(dim: str | None) -> str | None:
    """Return the dim of ``CUTTABLE`` by whose colour a dim is shown: one of positions by that of ``height``.

    Examples:
        >>> like("in_hidden"), like("out_ff"), like("sequence"), like("batch")
        ('in_channels', 'out_channels', 'height', 'batch')
    """
    if dim is None or dim in CUTTABLE:
        return dim
    return (
        "in_channels"
        if dim.startswith((READ, CONTRACTED))
        else "out_channels"
        if dim.startswith(MADE)
        else "height"
    )


def in_order(dims: Iterable[str]) -> list[str]:
    """Return dims in the order of plan files: those of ``CUTTABLE``, then the others by the names of their atoms.

    The order depends on names alone, so that two layers number their devices alike wherever they divide the same atoms.

    Examples:
        >>> in_order({"sequence", "in_hidden", "batch", "in_channels"})
        ['batch', 'in_channels', 'in_hidden', 'sequence']
    """
    return sorted(dims, key=_rank)


def _rank(dim: str) -> tuple[int, str, str]:
    return (CUTTABLE.index(dim), "", "") if dim in CUTTABLE else (len(CUTTABLE), atom_of(dim), dim)
