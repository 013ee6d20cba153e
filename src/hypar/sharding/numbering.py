"""Flat levels whose devices each layer numbers in an order of its own.

The digits of a device's number are levels inside the level: whatever holds for several levels, that no order of them changes
what is moved in all, and that pieces of samples and channels stay where they are, holds for digits. A level is
therefore counted, and laid out, as the levels of its digits, which are one level again in what is reported.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hypar.sharding.grids.layouts import device_order
from hypar.sharding.placement import COPIES, WHOLE, cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.sharding.placement import Choice, Options


class Digits(NamedTuple):
    """An array whose flat levels are replaced by levels of their digits.

    Attributes:
        array: the ways of each level.
        chosen: for each layer its choice at each level.
        of: the level of the original array to which each belongs.
    """

    array: tuple[int, ...]
    chosen: tuple[Options, ...]
    of: tuple[int, ...]


@lru_cache(maxsize=4096)
def digits_of(array: tuple[int, ...], chosen: tuple[Options, ...]) -> Digits | None:
    """Return the levels of the digits of some layers' choices; None if no layer has an order of its own.

    Args:
        array: the ways of each level.
        chosen: for each layer its choice at each level.

    Raises:
        ValueError: the orders have no common digits.

    Examples:
        >>> from hypar.sharding.placement import numbered
        >>> one, other = numbered([("batch", 4), ("height", 2)]), cut("batch", 8)
        >>> digits_of((8,), ((one,), (other,))).array
        (4, 2)
    """
    if not any(choice.order for own in chosen for choice in own):
        return None
    ways: list[int] = []
    levels: list[int] = []
    found: list[list[Choice]] = [[] for _ in chosen]
    for level, (size, *choices) in enumerate(zip(array, *chosen, strict=True)):
        if any(choice.order for choice in choices):
            runs = [runs_of(choice, size) for choice in choices]
            digits = common_digits(runs)
            parts = [_parts(own, digits) for own in runs]
        else:
            digits, parts = [size], [[choice] for choice in choices]
        ways += digits
        levels += [level] * len(digits)
        for choices_of, part in zip(found, parts, strict=True):
            choices_of.extend(part)
    return Digits(tuple(ways), tuple(map(tuple, found)), tuple(levels))


def runs_of(choice: Choice, ways: int) -> tuple[tuple[str, int], ...]:
    """Return the runs of digits of a choice: its own, or those of a grid that is numbered through.

    Raises:
        ValueError: the choice leaves devices idle.
    """
    if choice.order:
        return choice.order
    if not choice.degrees:
        return ((COPIES, ways),)
    found = tuple((dim, choice.degree(dim)) for dim in device_order({*choice.divided}))
    if math.prod(degree for _, degree in found) != ways:
        raise ValueError(
            f"found {choice.devices(ways):,} of {ways:,} devices; allowed: all where one layer numbers them"
        )
    return found


def common_digits(runs: Sequence[tuple[tuple[str, int], ...]]) -> list[int]:
    """Return the fewest digits of which every run of some orders has whole ones.

    Raises:
        ValueError: there are none.
    """
    ends = {1}
    for own in runs:
        end = 1
        for _, degree in own:
            end *= degree
            ends.add(end)
    found, before = [], 1
    for end in sorted(ends)[1:]:
        if end % before:
            raise ValueError(
                f"found digits that end at {before:,} and at {end:,}; allowed: ends that divide each other"
            )
        found.append(end // before)
        before = end
    return found


def _parts(runs: tuple[tuple[str, int], ...], digits: Sequence[int]) -> list[Choice]:
    """Return the choice at each digit."""
    found: list[Choice] = []
    left = iter(digits)
    for dim, degree in runs:
        done = 1
        while done < degree:
            digit = next(left)
            done *= digit
            found.append(WHOLE if dim == COPIES else cut(dim, digit))
    return found
