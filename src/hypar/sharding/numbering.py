"""The digits of the numbers of a level's devices.

A grid divides each of its dims by digits of its own, and so may layers in an order of their own. Digits are levels inside the
level: whatever holds for several levels, that no order of them changes what is moved in all, and that pieces of samples and
channels stay where they are, holds for digits. A level is therefore counted, and laid out, as the levels of its digits, which are
one level again in what is reported.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hypar.sharding.grids.layouts import device_order
from hypar.sharding.placement import ALONE, COPIES, IDLE, WHOLE, cut

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
def digits_of(array: tuple[int, ...], chosen: tuple[Options, ...]) -> Digits:
    """Return the levels of the digits of some layers' choices; a level of grids without common digits is left as it is.

    Args:
        array: the ways of each level.
        chosen: for each layer its choice at each level.

    Raises:
        ValueError: a layer numbers the devices of such a level in an order of its own.

    Examples:
        >>> from hypar.sharding.placement import numbered
        >>> one, other = numbered([("height", 2), ("batch", 4)]), cut("batch", 8)
        >>> digits_of((8,), ((one,), (other,))).array
        (2, 4)
    """
    ways: list[int] = []
    levels: list[int] = []
    found: list[list[Choice]] = [[] for _ in chosen]
    for level, (size, *choices) in enumerate(zip(array, *chosen, strict=True)):
        try:
            runs = [runs_of(choice, size) for choice in choices]
            digits = common_digits(runs)
            parts = [
                [_choice(label, digit) for label, digit in zip(labels(own, digits), digits, strict=True)]
                for own in runs
            ]
        except ValueError:
            if any(choice.order for choice in choices):
                raise
            digits, parts = [size], [[choice] for choice in choices]
        ways += digits
        levels += [level] * len(digits)
        for choices_of, part in zip(found, parts, strict=True):
            choices_of.extend(part)
    return Digits(tuple(ways), tuple(map(tuple, found)), tuple(levels))


def runs_of(choice: Choice, ways: int) -> tuple[tuple[str, int], ...]:
    """Return the runs of digits of a choice: its own, or those of a grid that is numbered through, idle devices innermost.

    Raises:
        ValueError: the devices that work do not divide the ways.

    Examples:
        >>> from hypar.sharding.placement import ALONE, grid
        >>> runs_of(grid({"in_channels": 2, "batch": 2}), 8), runs_of(ALONE, 8)
        ((('batch', 2), ('in_channels', 2), ('idle', 2)), (('idle', 8),))
    """
    if choice.order:
        return choice.order
    if not choice.degrees:
        return ((COPIES, ways),)
    working = choice.devices(ways)
    if ways % working:
        raise ValueError(f"found {working:,} of {ways:,} devices at work; allowed: a divisor")
    found = tuple((dim, choice.degree(dim)) for dim in device_order({*choice.divided}))
    return found if working == ways else (*found, (IDLE, ways // working))


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


def labels(runs: tuple[tuple[str, int], ...], digits: Sequence[int]) -> tuple[str, ...]:
    """Return what each digit divides."""
    found: list[str] = []
    left = iter(digits)
    for dim, degree in runs:
        done = 1
        while done < degree:
            done *= next(left)
            found.append(dim)
    return tuple(found)


def _choice(label: str, ways: int) -> Choice:
    return {COPIES: WHOLE, IDLE: ALONE}.get(label) or cut(label, ways)
