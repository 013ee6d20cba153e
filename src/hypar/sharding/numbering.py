"""The digits of the numbers of a level's devices.

A grid divides each of its dims by digits of its own, and so may layers in an order of their own. Digits are levels inside the
level: whatever holds for several levels, that no order of them changes what is moved in all, and that pieces of samples and
channels stay where they are, holds for digits. A level is therefore counted, and laid out, as the levels of its digits, which are
one level again in what is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.sharding.grids.layouts import device_order
from hypar.sharding.placement import ALONE, COPIES, IDLE, WHOLE, cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.sharding.placement import Choice


Digits = list[tuple[int, tuple[str, ...]]]
"""The digits of a level, outermost first: the values of each, and what each layer's choice divides by it."""


def digits_of(choices: Sequence[Choice], ways: int) -> Digits:
    """Return the fewest digits of which each choice at a level of some ways divides whole ones.

    Raises:
        ValueError: there are none.

    Examples:
        >>> from hypar.sharding.placement import numbered
        >>> digits_of([numbered([("height", 2), ("batch", 4)]), cut("batch", 8)], 8)
        [(2, ('height', 'batch')), (4, ('batch', 'batch'))]
    """
    runs = [runs_of(choice, ways) for choice in choices]
    digits = common_digits(runs)
    labels = [_labels(own, digits) for own in runs]
    return [*zip(digits, zip(*labels, strict=True), strict=True)]


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


def _labels(runs: tuple[tuple[str, int], ...], digits: Sequence[int]) -> tuple[str, ...]:
    """Return what each digit divides."""
    found: list[str] = []
    left = iter(digits)
    for dim, degree in runs:
        done = 1
        while done < degree:
            done *= next(left)
            found.append(dim)
    return tuple(found)


def choice_of(label: str, ways: int) -> Choice:
    """Return the choice that divides by all devices what a digit divides."""
    return {COPIES: WHOLE, IDLE: ALONE}.get(label) or cut(label, ways)
