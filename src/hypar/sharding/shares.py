"""The sizes that a share of one dim leaves of a layer."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypar.ops.nest import Nest


def divided_size(real: float, *, integral: bool) -> Any:
    """Return a size; a whole number if shares are of whole elements."""
    whole = round(real)
    return whole if integral and math.isclose(real, whole, rel_tol=1e-9) else real


@lru_cache(maxsize=4096)
def divided_einsum(nest: Nest, dim: str, share: float, *, integral: bool) -> Nest:
    """Return a layer reduced to a share of one dim."""
    read = dict(nest.input_sizes)
    if dim in read:
        read[dim] = divided_size(read[dim] * share, integral=integral)
    return replace(
        nest,
        sizes={**nest.sizes, dim: divided_size(nest.sizes[dim] * share, integral=integral)},
        input_elements=divided_size(
            nest.input_elements * (share if dim in nest.names["input"] else 1), integral=integral
        ),
        input_sizes=read,
    )
