"""A level of the array, and the local sizes of layers below the levels above it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.ops.dims import CUTTABLE
from hypar.sharding.numbering import layout

if TYPE_CHECKING:
    from hypar.ops.nest import Nest
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs

TENSORS = ("input", "weight", "output")
WORKING = "working"
QUANTITIES = (*TENSORS, *CUTTABLE, WORKING)
"""The divided quantities: a layer's tensors, its dims, and the groups that compute it."""


def is_tensor(name: str) -> bool:
    """Return whether a quantity is a tensor."""
    return name in TENSORS or name.startswith("input ")


@lru_cache(maxsize=4096)
def quantities(roles: Nest) -> tuple[str, ...]:
    """Return the divided quantities of a layer: ``QUANTITIES``, its further inputs and its named dims."""
    return (*QUANTITIES[:-1], *roles.others, *roles.extra, WORKING)


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

    def copies(self, sizes: LocalSizes, tensor: str) -> Costs:
        """Return the copies of a layer's input that all groups above the level read, ``[tuples]``."""
        return np.asarray(self.groups * sizes.of(WORKING) * sizes.of(tensor))


def levels_of(array: tuple[int, ...], element_bytes: int) -> tuple[Level, ...]:
    """Return all levels of an array, outermost first."""
    return tuple(Level(index=index, array=array, element_bytes=element_bytes) for index in range(len(array)))


@dataclass(frozen=True, eq=False, slots=True)
class LocalSizes:
    """Fractions of a layer that one group holds, for each tuple of choices of the levels above.

    Attributes:
        fractions: the remaining fraction of each quantity, ``[quantities, tuples]``.
        idle: whether a choice above may leave groups idle.
        names: the quantities: ``QUANTITIES``, with the further inputs and the named dims of a layer that has some.
    """

    fractions: Costs
    idle: bool = False
    names: tuple[str, ...] = QUANTITIES

    def of(self, quantity: str) -> Costs:
        """Return the remaining fraction of one of ``names``, ``[tuples]``; all of any other."""
        if quantity not in self.names:
            return np.ones(self.fractions.shape[1])
        left: Costs = self.fractions[self.names.index(quantity)]
        return left

    def of_tensors(self, nest: Nest) -> Costs:
        """Return the remaining fraction of each of a layer's tensors, ``[tensors, tuples]``."""
        if not nest.others:
            left: Costs = self.fractions[: len(TENSORS)]
            return left
        return np.stack([self.of(tensor) for tensor in nest.names])

    @property
    def of_dims(self) -> Costs:
        """The remaining fraction of each dim, ``[dims, tuples]``."""
        rows = [row for row, name in enumerate(self.names) if name != WORKING and not is_tensor(name)]
        left: Costs = self.fractions[rows]
        return left

    def divided(self, nest: Nest, options: Options, ways: int) -> LocalSizes:
        """Return the sizes below a level of some ways, for each tuple above and each option of the level; few are one object."""
        few = self.fractions.shape[1] * len(options) <= FEW
        return (
            _few_divided(self, nest.unsized, options, ways)
            if few
            else self._divided(nest.unsized, options, ways)
        )

    def _divided(self, roles: Nest, options: Options, ways: int) -> LocalSizes:
        divisors, idle = _divisors(roles, options, ways)
        names = quantities(roles)
        before = self.fractions
        if names != self.names:
            before = np.stack([self.of(name) for name in names])
        left = before[:, :, None] / divisors[:, None, :]
        return LocalSizes(left.reshape(len(names), -1), self.idle or idle, names)

    def distinct(self) -> LocalSizes:
        """Return the same sizes without duplicate tuples."""
        return LocalSizes(np.unique(self.fractions, axis=1), self.idle, self.names)


WHOLE_LAYER = LocalSizes(np.ones((len(QUANTITIES), 1)))
"""The sizes at the outermost level."""


FEW = 4
"""The most tuples of sizes that are kept for layers of equal roles: a search level by level asks for the same ones again."""


@lru_cache(maxsize=4096)
def _few_divided(sizes: LocalSizes, roles: Nest, options: Options, ways: int) -> LocalSizes:
    """Return few sizes below a level."""
    return sizes._divided(roles, options, ways)


@lru_cache(maxsize=4096)
def _divisors(roles: Nest, options: Options, ways: int) -> tuple[Costs, bool]:
    """Return each option's divisor of each quantity, ``[quantities, options]``, and whether one leaves devices idle."""
    names = quantities(roles)
    found = np.ones((len(names), len(options)))
    grids = layout(options, ways)
    for dim, degree in grids.chosen.items():
        for tensor in roles.names:
            if dim in roles.names[tensor]:
                found[names.index(tensor)] *= degree
        if dim in names:
            found[names.index(dim)] = degree
    found[-1] = ways / grids.working
    return found, bool((grids.working < ways).any())


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
