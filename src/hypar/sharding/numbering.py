"""The digits of the numbers of a level's devices.

The digits of a number are the prime factors of the ways, ascending, and each divides one dim of a layer. Layers may divide them in
an order of their own; in any other grid each dim, in the order of ``ORDER``, takes for each of its factors the outermost digit
that is free, and idle devices take those that are left. Digits are levels inside the level: whatever holds for several levels, that
no order of them changes what is moved in all, and that pieces of samples and channels stay where they are, holds for digits. A level
is therefore counted, and laid out, as the levels of its digits, which are one level again in what is reported.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hypar.sharding.placement import ALONE, COPIES, IDLE, WHOLE, beside, cut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.sharding.placement import Choice, Options

Numbers = NDArray[np.int64]

Digits = list[tuple[int, tuple[str, ...]]]
"""The digits of a level, outermost first: the values of each, and what each layer's choice divides by it."""

ORDER = ("batch", "height", "width", "groups", "in_channels", "out_channels", "channels")
"""The dims in the order in which they take digits; those that a model names come last."""


def primes(number: int) -> list[int]:
    """Return the prime factors in ascending order; an empty list for 1."""
    found, factor = [], 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found


@lru_cache(maxsize=16384)
def runs_of(choice: Choice, ways: int) -> tuple[tuple[str, int], ...]:
    """Return what the digits of a level divide under a choice, outermost first; digits beside each other as one run.

    The devices that work divide the ways.

    Examples:
        >>> from hypar.sharding.placement import ALONE, grid
        >>> runs_of(grid({"in_channels": 2, "batch": 2}), 8), runs_of(ALONE, 8)
        ((('batch', 2), ('in_channels', 2), ('idle', 2)), (('idle', 8),))
        >>> runs_of(grid({"batch": 3, "height": 2}), 12)
        (('height', 2), ('idle', 2), ('batch', 3))
    """
    if choice.order:
        return choice.order
    if len(choice.degrees) < 2 and choice.devices(ways) == ways:
        return ((next(iter(choice.divided), COPIES), ways),)
    digits = primes(ways)
    labels = [IDLE] * len(digits)
    for dim in sorted(choice.divided, key=(*ORDER, *choice.divided).index):
        for prime in primes(choice.degree(dim)):
            at = digits.index(prime)
            labels[labels.index(IDLE, at)] = dim
    return beside(zip(labels, digits, strict=True))


@lru_cache(maxsize=16384)
def shards_of(choice: Choice, ways: int) -> Mapping[str, Numbers]:
    """Return the number of each device's shard of each dim that a choice divides; of ``IDLE`` 0 for those that work.

    Examples:
        >>> from hypar.sharding.placement import grid
        >>> {dim: found.tolist() for dim, found in shards_of(grid({"batch": 2, "height": 2}), 4).items()}
        {'batch': [0, 0, 1, 1], 'height': [0, 1, 0, 1]}
    """
    found: dict[str, Numbers] = {}
    left, device = ways, np.arange(ways)
    for dim, degree in runs_of(choice, ways):
        left //= degree
        found[dim] = found.get(dim, np.zeros_like(device)) * degree + device // left % degree
    return found


def working(choice: Choice, ways: int) -> NDArray[np.bool_]:
    """Return whether each device works."""
    return np.asarray(shards_of(choice, ways).get(IDLE, np.zeros(ways)) == 0)


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """The choices of a layer at a level, as arrays.

    Attributes:
        choices: the choices.
        ways: number of devices.
        working: number of working devices, ``[choices]``.
        chosen: degree of each divided dim in each choice, ``[choices]``.
    """

    choices: Options
    ways: int
    working: Numbers
    chosen: dict[str, Numbers]

    def degree(self, dim: str | None) -> Numbers:
        """Return the degree of a dim in each choice, ``[choices]``."""
        return self.chosen.get(dim or "", np.ones_like(self.working))


@lru_cache(maxsize=512)
def layout(choices: Options, ways: int) -> Layout:
    """Return the choices of a layer as arrays."""
    dims = dict.fromkeys(dim for choice in choices for dim in choice.divided)
    chosen = {dim: np.array([choice.degree(dim) for choice in choices]) for dim in dims}
    return Layout(choices, ways, np.array([choice.devices(ways) for choice in choices]), chosen)


def digits_of(choices: Sequence[Choice], ways: int) -> Digits:
    """Return the fewest digits of which each choice at a level of some ways divides whole ones.

    Raises:
        ValueError: there are none.

    Examples:
        >>> from hypar.sharding.placement import numbered
        >>> digits_of([numbered([("height", 2), ("batch", 4)]), cut("batch", 8)], 8)
        [(2, ('height', 'batch')), (4, ('batch', 'batch'))]
    """
    every = [runs_of(choice, ways) for choice in choices]
    ends = {runs: [*accumulate((degree for _, degree in runs), mul)] for runs in {*every}}
    found, before = [], 1
    for end in sorted({1}.union(*ends.values()))[1:]:
        if end % before:
            raise ValueError(
                f"found digits that end at {before:,} and at {end:,}; allowed: ends that divide each other"
            )
        labels = {runs: runs[bisect_left(own, end)][0] for runs, own in ends.items()}
        found.append((end // before, tuple([labels[runs] for runs in every])))
        before = end
    return found


def choice_of(label: str, ways: int) -> Choice:
    """Return the choice that divides by all devices what a digit divides."""
    return {COPIES: WHOLE, IDLE: ALONE}.get(label) or cut(label, ways)
