"""Assignment of the shards of each dim to devices.

A choice of degrees makes a grid of shards. The working devices are numbered through it, the first dim of
``ORDER`` outermost. If fewer devices work than there are ways, they are spread evenly, so that a device of a
coarser grid lies among the devices that have the same shard of a finer grid. A choice with an order of its own numbers
them through the digits of that order: the digits of a dim, outermost first, are the number of its shard.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hypar.ops.dims import in_order
from hypar.sharding.placement import COPIES, Choice, grids

if TYPE_CHECKING:
    from collections.abc import Collection

Numbers = NDArray[np.int64]

ORDER = ("batch", "height", "width", "groups", "in_channels", "out_channels", "channels")
"""The dims in the order in which devices are numbered, outermost first."""


def device_order(dims: Collection[str]) -> tuple[str, ...]:
    """Return dims in the order in which devices are numbered, outermost first: those that a model names come last.

    Examples:
        >>> device_order({"sequence", "width", "out_heads", "batch"})
        ('batch', 'width', 'out_heads', 'sequence')
    """
    known = tuple(dim for dim in ORDER if dim in dims)
    return known if len(known) == len(dims) else (*known, *in_order(dim for dim in dims if dim not in ORDER))


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Layout:
    """Assignment of shards to devices, for every choice of a layer.

    Attributes:
        ways: number of devices.
        working: number of working devices, ``[choices]``.
        chosen: degree of each divided dim in each choice, ``[choices]``.
        degrees: possible degrees of each divided dim, ascending.
        rows: shard of each divided dim that each device has, as a row of ``bounds``, ``[choices, ways]``.
        active: whether each device works, ``[choices, ways]``.
        spread: whether the number of working devices always divides the ways.
        ordered: whether some choice has an order of its own.
        among: the larger layout of which this is a selection, and the indices selected; None for no selection.
    """

    ways: int
    working: Numbers
    chosen: dict[str, Numbers]
    degrees: dict[str, tuple[int, ...]]
    rows: dict[str, Numbers]
    active: NDArray[np.bool_]
    spread: bool
    ordered: bool = False
    among: tuple[Layout, Numbers] | None = None

    def of(self, dim: str | None) -> tuple[int, ...]:
        """Return the degrees of a dim; a single 1 if no choice divides it."""
        return self.degrees.get(dim or "", (1,))

    def first(self, dim: str | None) -> Numbers | int:
        """Return the first device's shard of a dim, ``[choices]``; 0 if no choice divides it."""
        return self.rows[dim][:, 0] if dim in self.rows else 0

    def degree(self, dim: str | None) -> Numbers | int:
        """Return the degree of a dim in each choice, ``[choices]``; 1 if no choice divides it."""
        return self.chosen.get(dim or "", 1)

    def taken(self, dim: str | None) -> NDArray[np.bool_]:
        """Return whether each degree of a dim occurs in some choice."""
        return _taken(self, dim)


@lru_cache(maxsize=2048)
def _taken(layout: Layout, dim: str | None) -> NDArray[np.bool_]:
    had = {*np.atleast_1d(layout.degree(dim)).tolist()}
    return np.array([degree in had for degree in layout.of(dim)])


@lru_cache(maxsize=512)
def layout(choices: tuple[Choice, ...], ways: int) -> Layout:
    """Return the layout of a layer's choices.

    Choices that make up most of a whole grid are selected from its layout, so that similar layers share it.
    """
    divided = {dim for choice in choices for dim, degree in choice.degrees if degree > 1}
    dims = device_order(divided)
    if len(dims) > 1 and ways & (ways - 1) == 0:
        index = _whole_grid(dims, ways)
        if tuple(index) == choices:
            return _layout(choices, ways)
        if len(choices) > len(index) // 2 and all(choice in index for choice in choices):
            return _some_of(_layout(tuple(index), ways), np.array([index[choice] for choice in choices]))
    return _layout(choices, ways)


@lru_cache(maxsize=64)
def _whole_grid(dims: tuple[str, ...], ways: int) -> dict[Choice, int]:
    """Return the index of every power-of-two grid whose product is at most the ways."""
    powers = tuple(2**power for power in range(ways.bit_length()))
    return {found.choice: at for at, found in enumerate(grids(dims, powers, ways))}


def _some_of(whole: Layout, which: Numbers) -> Layout:
    """Return a selection of a layout's choices."""
    return Layout(
        ways=whole.ways,
        working=whole.working[which],
        chosen={dim: degree[which] for dim, degree in whole.chosen.items()},
        degrees=whole.degrees,
        rows={dim: rows[which] for dim, rows in whole.rows.items()},
        active=whole.active[which],
        spread=whole.spread,
        among=(whole, which),
    )


@lru_cache(maxsize=512)
def _layout(choices: tuple[Choice, ...], ways: int) -> Layout:
    """Compute the layout of choices without reference to a larger one."""
    order = device_order({dim for choice in choices for dim, _ in choice.degrees})
    index = {dim: row for row, dim in enumerate((*order, COPIES))}
    own: Numbers = np.ones((len(index), len(choices)), np.int64)
    for column, choice in enumerate(choices):
        for dim, degree in choice.order or choice.degrees or ((COPIES, ways),):
            own[index[dim], column] *= degree
    chosen = {dim: own[row] for dim, row in index.items() if own[row].max() > 1}
    working: Numbers = own.prod(axis=0)
    device = np.arange(ways)
    turn = -(-device * working[:, None] // ways)
    left, degrees, rows = working[:, None].copy(), {}, {}
    for dim, each in chosen.items():
        degrees[dim] = tuple(sorted({*each.tolist()}))
        starts = np.cumsum([0, *degrees[dim]])[np.searchsorted(degrees[dim], each)]
        left //= each[:, None]
        rows[dim] = starts[:, None] + turn // left % each[:, None]
        for column, choice in enumerate(choices):
            if choice.order:
                rows[dim][column] = starts[column] + _shards(choice.order, dim, ways)
    return Layout(
        ways=ways,
        working=working,
        chosen=chosen,
        degrees=degrees,
        rows=rows,
        active=turn * ways // working[:, None] == device,
        spread=bool((ways % working == 0).all()),
        ordered=any(choice.order for choice in choices),
    )


def _shards(order: tuple[tuple[str, int], ...], dim: str, ways: int) -> Numbers:
    """Return the shard of a dim that each device has in an order of its own."""
    shard, left, device = np.zeros(ways, np.int64), ways, np.arange(ways)
    for own, degree in order:
        left //= degree
        if own == dim:
            shard = shard * degree + device // left % degree
    return shard
