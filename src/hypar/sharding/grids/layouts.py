"""Which piece of each dim each device has.

A choice of degrees makes a grid of pieces. The devices that work are numbered through it, the first dim of
``ORDER`` outermost; with fewer devices than ways they are spread evenly over them, so that a coarser grid's
devices lie among those that have the same piece of a finer one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hypar.sharding.placement import Choice, grids

Numbers = NDArray[np.int64]

ORDER = ("batch", "height", "width", "groups", "in_channels", "out_channels", "channels")
"""The dims in the order in which devices are numbered through them, the outermost first."""

COPIES = "copies"
"""What divides the devices where every one of them does the whole layer: no dim, but a number of its own."""

_ROWS = {dim: row for row, dim in enumerate((*ORDER, COPIES))}


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Layout:
    """Which piece of each dim each device has, for every choice of a layer.

    Attributes:
        ways: devices.
        working: how many of them work, ``[choices]``.
        parts: for each divided dim its degree in each choice, ``[choices]``.
        degrees: for each divided dim the degrees that there may be, rising.
        rows: for each divided dim the piece of each device, as a row of ``bounds``, ``[choices, ways]``.
        active: which devices work, ``[choices, ways]``.
        spread: whether the number of devices that work always divides the ways.
        among: of what larger layout these choices are some, and which; None where of none.
    """

    ways: int
    working: Numbers
    parts: dict[str, Numbers]
    degrees: dict[str, tuple[int, ...]]
    rows: dict[str, Numbers]
    active: NDArray[np.bool_]
    spread: bool
    among: tuple[Layout, Numbers] | None = None

    def of(self, dim: str | None) -> tuple[int, ...]:
        """The degrees of a dim; one of 1 where no choice divides it."""
        return self.degrees.get(dim or "", (1,))

    def first(self, dim: str | None) -> Numbers | int:
        """The piece of a dim that the first device has, ``[choices]``; 0 where no choice divides it."""
        return self.rows[dim][:, 0] if dim in self.rows else 0

    def degree(self, dim: str | None) -> Numbers | int:
        """The degree of a dim in each choice, ``[choices]``; 1 where no choice divides it."""
        return self.parts.get(dim or "", 1)

    def taken(self, dim: str | None) -> NDArray[np.bool_]:
        """Which of the degrees of a dim some choice has."""
        return _taken(self, dim)


@lru_cache(maxsize=2048)
def _taken(layout: Layout, dim: str | None) -> NDArray[np.bool_]:
    """As ``Layout.taken``."""
    had = {*np.atleast_1d(layout.degree(dim)).tolist()}
    return np.array([degree in had for degree in layout.of(dim)])


@lru_cache(maxsize=512)
def layout(choices: tuple[Choice, ...], ways: int) -> Layout:
    """The pieces of a layer's choices.

    Choices that are most of a whole grid are looked up in it, so that layers that lack a few share its work.
    """
    divided = {dim for choice in choices for dim, degree in choice.degrees if degree > 1}
    dims = tuple(dim for dim in ORDER if dim in divided)
    if len(dims) > 1 and ways & (ways - 1) == 0:
        index = _whole_grid(dims, ways)
        if tuple(index) == choices:
            return _layout(choices, ways)
        if len(choices) > len(index) // 2 and all(choice in index for choice in choices):
            return _some_of(_layout(tuple(index), ways), np.array([index[choice] for choice in choices]))
    return _layout(choices, ways)


@lru_cache(maxsize=64)
def _whole_grid(dims: tuple[str, ...], ways: int) -> dict[Choice, int]:
    """Every power of two of every dim, at most the ways together."""
    powers = tuple(2**power for power in range(ways.bit_length()))
    return {found.choice: at for at, found in enumerate(grids(dims, powers, ways))}


def _some_of(whole: Layout, which: Numbers) -> Layout:
    """Some choices of a layout."""
    return Layout(
        ways=whole.ways,
        working=whole.working[which],
        parts={dim: degree[which] for dim, degree in whole.parts.items()},
        degrees=whole.degrees,
        rows={dim: rows[which] for dim, rows in whole.rows.items()},
        active=whole.active[which],
        spread=whole.spread,
        among=(whole, which),
    )


@lru_cache(maxsize=512)
def _layout(choices: tuple[Choice, ...], ways: int) -> Layout:
    """As ``layout``, by itself."""
    own: Numbers = np.ones((len(ORDER) + 1, len(choices)), np.int64)
    for column, choice in enumerate(choices):
        for dim, degree in choice.degrees or ((COPIES, ways),):
            own[_ROWS[dim], column] = degree
    parts = {dim: own[row] for dim, row in _ROWS.items() if own[row].max() > 1}
    working: Numbers = own.prod(axis=0)
    device = np.arange(ways)
    turn = -(-device * working[:, None] // ways)
    left, degrees, rows = working[:, None].copy(), {}, {}
    for dim, each in parts.items():
        degrees[dim] = tuple(sorted({*each.tolist()}))
        starts = np.cumsum([0, *degrees[dim]])[np.searchsorted(degrees[dim], each)]
        left //= each[:, None]
        rows[dim] = starts[:, None] + turn // left % each[:, None]
    return Layout(
        ways=ways,
        working=working,
        parts=parts,
        degrees=degrees,
        rows=rows,
        active=turn * ways // working[:, None] == device,
        spread=bool((ways % working == 0).all()),
    )
