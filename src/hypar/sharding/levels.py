"""A level of the array, and what the levels above it have left of every layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.dims import CUTTABLE
from hypar.sharding.grids.layouts import layout

if TYPE_CHECKING:
    from hypar.network.ops.base import Einsum
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs

TENSORS = ("input", "weight", "output")
WORKING = "working"
PARTS = (*TENSORS, *CUTTABLE, WORKING)
"""What is divided: the tensors of a layer, its dims, and the groups that work for it."""


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
        """Into how many parts every group is split."""
        return self.array[self.index]

    @property
    def groups(self) -> int:
        """How many like groups it splits."""
        return math.prod(self.array[: self.index])

    @property
    def innermost(self) -> bool:
        """Whether its parts are single devices."""
        return self.index == len(self.array) - 1


def levels_of(array: tuple[int, ...], element_bytes: int) -> tuple[Level, ...]:
    """All levels of an array, outermost first."""
    return tuple(Level(index=index, array=array, element_bytes=element_bytes) for index in range(len(array)))


@dataclass(frozen=True, eq=False, slots=True)
class LocalSizes:
    """How much of a layer one group still has, for each tuple of choices of the levels above.

    Attributes:
        parts: the part that is left of each of ``PARTS``, ``[parts, tuples]``.
        idle: whether a choice above may leave groups idle.
    """

    parts: Costs
    idle: bool = False

    def of(self, part: str) -> Costs:
        """What is left of one of ``PARTS``, ``[tuples]``."""
        left: Costs = self.parts[PARTS.index(part)]
        return left

    def at_work(self, costs: Costs) -> Costs:
        """Costs ``[..., tuples, options]`` of all groups, of those that work for the layer."""
        return costs * self.of(WORKING)[:, None] if self.idle else costs

    def divided(self, einsum: Einsum, options: Options, ways: int) -> LocalSizes:
        """What is left below a level of some ways, for each tuple above and each option of the level."""
        divisors, idle = _divisors(einsum, options, ways)
        left = self.parts[:, :, None] / divisors[:, None, :]
        return LocalSizes(left.reshape(len(PARTS), -1), self.idle or idle)

    def distinct(self) -> LocalSizes:
        """Return the same sizes without tuples that leave what another one leaves."""
        return LocalSizes(np.unique(self.parts, axis=1), self.idle)


WHOLE_LAYER = LocalSizes(np.ones((len(PARTS), 1)))
"""What the outermost level sees."""


@lru_cache(maxsize=4096)
def _divisors(einsum: Einsum, options: Options, ways: int) -> tuple[Costs, bool]:
    """By how much each option divides each part, ``[parts, options]``, and whether one leaves devices idle."""
    found = np.ones((len(PARTS), len(options)))
    grids = layout(options, ways)
    for dim, degree in grids.parts.items():
        for row, tensor in enumerate(TENSORS):
            if dim in einsum.dims(tensor):
                found[row] *= degree
        if dim in CUTTABLE:
            found[PARTS.index(dim)] = degree
    found[-1] = ways / grids.working
    return found, bool((grids.working < ways).any())
