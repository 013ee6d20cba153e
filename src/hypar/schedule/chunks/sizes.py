"""Chunks of one size. Source: CGDP, its rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.errors import OptionError, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.schedule.chunks.exchanges import Sizes


def rule_sizes(layers: int, size: int) -> Sizes:
    """Return chunks of one size from the last layer down, then single layers down to the first.

    The layers that are left over are single; if none are left over, the last chunk is divided into single layers, as
    late gradients should be small.

    Args:
        layers: the number of layers.
        size: the number of layers of a chunk; ``layers`` or more leave every layer single.

    Examples:
        >>> rule_sizes(6, 3), rule_sizes(7, 3)
        ((3, 1, 1, 1), (3, 3, 1))
    """
    whole = layers // size - (layers % size == 0)
    return (size,) * whole + (1,) * (layers - whole * size)


def checked_size(chunks: str | int, most: int, names: Sequence[str]) -> int:
    """Check a requested size of chunks, which may be text from the command line.

    Args:
        chunks: the requested size.
        most: the largest size.
        names: the other requests that are allowed.

    Raises:
        OptionError: it is not a size in this range.
    """
    digits = isinstance(chunks, str) and chunks.isdecimal() and len(chunks) < 9
    size = int(chunks) if digits or type(chunks) is int else 0
    if not 1 <= size <= most:
        raise OptionError("chunks", f"found {shown(chunks)}", f"{', '.join(names)}, or 1 to {most}")
    return size
