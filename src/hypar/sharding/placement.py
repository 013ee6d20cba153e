"""What a level does to a layer and to its tensors.

A *choice* is a degree for each dim of a layer. The consequences of dividing a dim are read off the layer's
einsum: a tensor that carries the dim is ``Shard``, a phase that contracts it leaves its result
``Partial``, every other tensor is ``Replicate``. A choice of several dims does all of that at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hypar.network.training import PHASES
from hypar.sharding.dims import CUTTABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.ops.base import Einsum, Roles


@dataclass(frozen=True, slots=True)
class Shard:
    """Every device holds its share of one dim of the tensor."""

    dim: str

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True, slots=True)
class Replicate:
    """Every device holds the whole tensor."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, slots=True)
class Partial:
    """Every device holds a term of the sum that is the tensor."""

    def __str__(self) -> str:
        return "P"


Placement = Shard | Replicate | Partial


class Choice(NamedTuple):
    """What a level does to a layer: a degree for each dim that it divides.

    Attributes:
        degrees: each dim with the number of its parts, in the order of ``CUTTABLE``. Their product is the number of
            devices that work, at most the ways of the level; the others are idle. Without any dim every device
            does the whole layer.
    """

    degrees: tuple[tuple[str, int], ...] = ()

    def degree(self, dim: str) -> int:
        """Over how many parts a dim is divided; 1 where it is not."""
        for name, degree in self.degrees:
            if name == dim:
                return degree
        return 1

    def devices(self, ways: int) -> int:
        """How many of the devices of a group, one a way, work."""
        return math.prod(degree for _, degree in self.degrees) if self.degrees else ways

    @property
    def divided(self) -> tuple[str, ...]:
        """The dims of more than one part."""
        return tuple(dim for dim, degree in self.degrees if degree > 1)

    def text(self, ways: int) -> str | None:
        """The dims with their degrees, only the dim where one has them all; None without any dim.

        Example:
            >>> cut("batch", 8).text(8), cut("batch", 8).text(16), grid({"batch": 4, "height": 2}).text(8)
            ('batch', 'batch8', 'batch4 height2')
        """
        if len(self.degrees) == 1 and self.degrees[0][1] == ways:
            return self.degrees[0][0]
        return " ".join(f"{dim}{degree}" for dim, degree in self.degrees) or None

    def as_degrees(self) -> dict[str, int]:
        """The plan file's form, as ``{"batch": 2}``."""
        return dict(self.degrees)


Options = tuple[Choice, ...]
"""What a layer may do at a level."""

WHOLE = Choice()
"""Every device does the whole layer: what a join may do, whose tensors are all on every device then."""

ALONE = Choice((("batch", 1),))
"""One device does the whole layer."""


def cut(dim: str, degree: int) -> Choice:
    """The choice that divides one dim.

    Example:
        >>> cut("batch", 4)
        Choice(degrees=(('batch', 4),))
    """
    return Choice(((dim, degree),))


def grid(degrees: Mapping[str, int]) -> Choice:
    """The choice that divides several dims; those of one part are left out, and one device is left without any.

    Example:
        >>> grid({"batch": 4, "height": 1, "width": 2}), grid({"batch": 1}) == ALONE
        (Choice(degrees=(('batch', 4), ('width', 2))), True)
    """
    found = tuple((dim, degrees[dim]) for dim in CUTTABLE if degrees.get(dim, 1) > 1)
    return Choice(found) if found else ALONE


class Grid(NamedTuple):
    """A choice of several dims with what it was made of.

    Attributes:
        degrees: the degree of each dim.
        devices: their product.
        choice: the choice.
    """

    degrees: tuple[int, ...]
    devices: int
    choice: Choice


MOST_GRIDS = 2**16
"""Grids of some dims, before those are left out that a layer is too small for."""


@lru_cache(maxsize=64)
def grids(dims: tuple[str, ...], degrees: tuple[int, ...], ways: int) -> tuple[Grid, ...]:
    """Every degree of every dim, at most the ways together: those of most devices first, then of the first dims.

    Raises:
        OverflowError: there are more than ``MOST_GRIDS``.

    Example:
        >>> [found.degrees for found in grids(("batch", "height"), (1, 2), 2)]
        [(2, 1), (1, 2), (1, 1)]
    """
    found: list[tuple[tuple[int, ...], int]] = [((), 1)]
    for _ in dims:
        found = [
            ((*own, degree), product * degree)
            for own, product in found
            for degree in degrees
            if product * degree <= ways
        ]
        if len(found) > MOST_GRIDS:
            raise OverflowError(f"more than {MOST_GRIDS:,} grids of {ways} ways")
    found.sort(key=lambda one: (-one[1], [-degree for degree in one[0]]))
    return tuple(Grid(own, product, grid(dict(zip(dims, own, strict=True)))) for own, product in found)


def placement(einsum: Einsum, dim: str | None, tensor: str) -> Placement:
    """Where dividing one dim puts an operand of a layer.

    Args:
        einsum: the layer.
        dim: the dim that is divided; None for none.
        tensor: ``input``, ``weight`` or ``output``.
    """
    if dim is None or dim not in einsum.dims(tensor):
        return Replicate()
    names = {"input": einsum.input, "output": einsum.output}.get(tensor, {})
    return Shard(names.get(dim, dim))


def partial_results(einsum: Einsum | Roles, dim: str | None) -> tuple[str, ...]:
    """The results that dividing one dim leaves Partial: those of the phases that contract it.

    Returns:
        Of ``output`` (forward), ``input`` (backward) and ``weight`` (gradient) those that are partial sums.
    """
    if dim is None or not einsum.weight:
        return ()
    return tuple(
        phase.result
        for phase in PHASES.values()
        if dim not in einsum.dims(phase.result)
        and any(dim in einsum.dims(operand) for operand in phase.operands)
    )


def divisor(einsum: Einsum, choice: Choice, tensor: str) -> int:
    """By how much a choice divides a tensor's elements for the next level."""
    carried = einsum.dims(tensor)
    return math.prod(degree for dim, degree in choice.degrees if dim in carried)
