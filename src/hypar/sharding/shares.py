"""The sizes that a share of one dim leaves of a layer."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypar.network.einsum import Einsum


def divided_size(real: float, *, integral: bool) -> Any:
    """Return a size; a whole number if shares are of whole elements."""
    whole = round(real)
    return whole if integral and math.isclose(real, whole, rel_tol=1e-9) else real


@lru_cache(maxsize=4096)
def divided_einsum(einsum: Einsum, dim: str, share: float, *, integral: bool) -> Einsum:
    """Return a layer reduced to a share of one dim."""
    read = dict(einsum.input_sizes)
    if dim in read:
        read[dim] = divided_size(read[dim] * share, integral=integral)
    return einsum.resized(
        sizes={**einsum.sizes, dim: divided_size(einsum.sizes[dim] * share, integral=integral)},
        input_elements=divided_size(
            einsum.input_elements * (share if dim in einsum.input else 1), integral=integral
        ),
        input_sizes=read,
    )
