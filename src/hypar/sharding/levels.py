"""What is left of layers: the local sizes below levels of the array, and a network of smaller layers below an uneven split."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.sharding.placement import Options, layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.ops.nest import Nest
    from hypar.solve.edge import Costs

WORKING = "working"
"""The quantity that is divided beside a layer's dims: the groups that compute it."""

TINY = 1e-9
"""Difference below which two shares are equal, and fraction of an element within which a bound of shares is whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One split of the array.

    Attributes:
        index: 0 for the outermost.
        array: ways of each level, outermost first.
        element_bytes: bytes of one element of any tensor.
    """

    index: int
    array: tuple[int, ...]
    element_bytes: int

    @property
    def ways(self) -> int:
        """Number of groups into which every group is split."""
        return self.array[self.index]

    @property
    def groups(self) -> int:
        """Number of identical groups that the level splits."""
        return math.prod(self.array[: self.index])

    @property
    def innermost(self) -> bool:
        """Whether the level splits groups into single devices."""
        return self.index == len(self.array) - 1

    def copies(self, sizes: LocalSizes, nest: Nest, tensor: str) -> Costs:
        """Return the copies of a layer's tensor that all groups above the level have, ``[..., tuples]``."""
        return math.prod((sizes.of(dim) for dim in nest.names[tensor]), start=self.groups * sizes.of(WORKING))


def levels_of(array: tuple[int, ...], element_bytes: int) -> tuple[Level, ...]:
    """Return all levels of an array, outermost first."""
    return tuple(Level(index=index, array=array, element_bytes=element_bytes) for index in range(len(array)))


@dataclass(frozen=True, eq=False, slots=True)
class LocalSizes:
    """Fractions of a layer that one group holds, for each tuple of choices of the levels above.

    Attributes:
        fractions: the remaining fraction of each quantity, ``[..., quantities, tuples]``; the last one is that of the groups.
        names: the quantities: dims of the layer, and ``WORKING``.
    """

    fractions: Costs
    names: tuple[str, ...] = (WORKING,)

    def of(self, quantity: str) -> Costs:
        """Return the remaining fraction of one of ``names``, ``[..., tuples]``; all of any other."""
        if quantity not in self.names:
            return np.ones_like(self.fractions[..., 0, :])
        left: Costs = self.fractions[..., self.names.index(quantity), :]
        return left

    def divided(self, nest: Nest, options: Options, ways: int) -> LocalSizes:
        """Return the sizes below a level of some ways, for each tuple above and each option of the level; few are one object."""
        # A search level by level asks for the same few ones again.
        few = self.fractions.shape[1] * len(options) <= 4
        return (_divided if few else _divided.__wrapped__)(self, nest.unsized, options, ways)


WHOLE_LAYER = LocalSizes(np.ones((1, 1)))
"""The sizes at the outermost level."""


@lru_cache(maxsize=4096)
def _divided(above: LocalSizes, roles: Nest, options: Options, ways: int) -> LocalSizes:
    grids, names = layout(options, ways), (*roles.counted, WORKING)
    before = above.fractions if names == above.names else np.stack([above.of(name) for name in names])
    divisors = np.stack([*map(grids.degree, roles.counted), ways / grids.working])
    return LocalSizes((before[:, :, None] / divisors[:, None, :]).reshape(len(names), -1), names)


def divided_size(size: float, share: float, *, integral: bool) -> Any:
    """Return a share of a size; a whole number if shares are of whole elements."""
    real = size * share
    whole = round(real)
    return whole if integral and math.isclose(real, whole, rel_tol=1e-9) else real


@lru_cache(maxsize=4096)
def divided_einsum(nest: Nest, dim: str, share: float, *, integral: bool) -> Nest:
    """Return a layer reduced to a share of one dim."""
    part, read = partial(divided_size, share=share, integral=integral), nest.input_sizes
    return replace(
        nest,
        sizes={**nest.sizes, dim: part(nest.sizes[dim])},
        input_elements=part(nest.input_elements) if dim in nest.names["input"] else nest.input_elements,
        input_sizes={**read, dim: part(read[dim])} if dim in read else read,
    )


def whole_ends(size: int, shares: Sequence[tuple[float, float]]) -> list[tuple[int, int]]:
    """Return the ends of shares in whole elements: as even as possible, or by the largest remainders of uneven shares.

    Examples:
        >>> whole_ends(7, [(0, 0.5), (0.5, 1)]), whole_ends(7, [(0, 0.3), (0.3, 1)])
        ([(0, 3), (3, 7)], [(0, 2), (2, 7)])
    """
    widths = [end - start for start, end in shares]
    if max(widths) - min(widths) > TINY and abs(sum(widths) - 1) < TINY:
        shares = [*pairwise(accumulate(whole_shares(size, widths), initial=0.0))]
    return [(int(start * size + TINY), int(end * size + TINY)) for start, end in shares]


def whole_shares(size: int, shares: Sequence[float]) -> tuple[float, ...]:
    """Round shares to whole elements, at least one each; return them as given if no such rounding exists.

    Elements left over by rounding down go to the largest remainders, the first of equal ones.
    """
    if size < len(shares) or not isinstance(size, int):
        return tuple(shares)
    counts = [max(1, math.floor(size * share)) for share in shares]
    while sum(counts) > size:
        counts[counts.index(max(counts))] -= 1
    rest = sorted(range(len(shares)), key=lambda group: counts[group] - size * shares[group])
    for group in rest[: size - sum(counts)]:
        counts[group] += 1
    return tuple(count / size for count in counts)
