"""Find the places where stages may begin and end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.errors import TableLimitError

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_PLACES = 512
"""Largest number of layers before each of which a stage may begin, or else of blocks: minutes of planning if no two are equal."""


def stage_ends(names: Sequence[str]) -> tuple[int, ...]:
    """Return the layers before which a stage may begin, and the number of layers.

    That is any layer, but in a network of more than ``MOST_PLACES`` layers the first one of a block: of consecutive
    layers whose names are the same up to the last dot.

    Args:
        names: the layers that are cut, in topological order.

    Raises:
        TableLimitError: the network has too many layers, or blocks.

    Examples:
        >>> stage_ends(["wte", "h.0.q", "h.0.k", "h.1.q"])
        (0, 1, 2, 3, 4)
        >>> stage_ends(["wte", *(f"h.{block}.{name}" for block in range(300) for name in "qkv"), "head"])[:5]
        (0, 1, 4, 7, 10)
    """
    if len(names) <= MOST_PLACES:
        return tuple(range(len(names) + 1))
    blocks = [name.rpartition(".")[0] or name for name in names]
    first = [at for at, block in enumerate(blocks) if at == 0 or block != blocks[at - 1]]
    if len(first) > MOST_PLACES:
        found = f"found {len(names):,} layers that are cut"
        found += f" in {len(first):,} blocks" if len(first) < len(names) else ""
        raise TableLimitError(
            f"stages: {found}; allowed: {MOST_PLACES:,}; try --starts", len(first), MOST_PLACES
        )
    return (*first, len(names))
