"""A level of the array, and the local sizes of layers below the levels above it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.dims import CUTTABLE
from hypar.sharding.grids.layouts import layout

if TYPE_CHECKING:
    from hypar.network.ops.base import Einsum, Roles
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs

TENSORS = ("input", "weight", "output")
WORKING = "working"
QUANTITIES = (*TENSORS, *CUTTABLE, WORKING)
"""The divided quantities: a layer's tensors, its dims, and the groups that compute it."""


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


def levels_of(array: tuple[int, ...], element_bytes: int) -> tuple[Level, ...]:
    """Return all levels of an array, outermost first."""
    return tuple(Level(index=index, array=array, element_bytes=element_bytes) for index in range(len(array)))


@dataclass(frozen=True, eq=False, slots=True)
class LocalSizes:
    """Fractions of a layer that one group holds, for each tuple of choices of the levels above.

    Attributes:
        fractions: the remaining fraction of each of ``QUANTITIES``, ``[quantities, tuples]``.
        idle: whether a choice above may leave groups idle.
    """

    fractions: Costs
    idle: bool = False

    def of(self, quantity: str) -> Costs:
        """Return the remaining fraction of one of ``QUANTITIES``, ``[tuples]``."""
        left: Costs = self.fractions[QUANTITIES.index(quantity)]
        return left

    @property
    def of_dims(self) -> Costs:
        """The remaining fraction of each of ``CUTTABLE``, ``[dims, tuples]``."""
        left: Costs = self.fractions[len(TENSORS) : -1]
        return left

    def at_work(self, costs: Costs) -> Costs:
        """Scale costs ``[..., tuples, options]`` of all groups to the groups that compute the layer."""
        return costs * self.of(WORKING)[:, None] if self.idle else costs

    def divided(self, einsum: Einsum, options: Options, ways: int) -> LocalSizes:
        """Return the sizes below a level of some ways, for each tuple above and each option of the level."""
        divisors, idle = _divisors(einsum.roles, options, ways)
        left = self.fractions[:, :, None] / divisors[:, None, :]
        return LocalSizes(left.reshape(len(QUANTITIES), -1), self.idle or idle)

    def distinct(self) -> LocalSizes:
        """Return the same sizes without duplicate tuples."""
        return LocalSizes(np.unique(self.fractions, axis=1), self.idle)


WHOLE_LAYER = LocalSizes(np.ones((len(QUANTITIES), 1)))
"""The sizes at the outermost level."""


@lru_cache(maxsize=4096)
def _divisors(roles: Roles, options: Options, ways: int) -> tuple[Costs, bool]:
    """Return each option's divisor of each quantity, ``[quantities, options]``, and whether one leaves devices idle."""
    found = np.ones((len(QUANTITIES), len(options)))
    grids = layout(options, ways)
    for dim, degree in grids.chosen.items():
        for row, tensor in enumerate(TENSORS):
            if dim in roles.dims(tensor):
                found[row] *= degree
        if dim in CUTTABLE:
            found[QUANTITIES.index(dim)] = degree
    found[-1] = ways / grids.working
    return found, bool((grids.working < ways).any())
