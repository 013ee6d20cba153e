"""Check the ways of the levels of a request."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.errors import HardwareError, OptionError
from hypar.sharding.tree import MOST_DEVICES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.machine import Machine


def checked_array(
    levels: int | None, array: Sequence[int] | None, *, stages: bool = False
) -> tuple[int, ...]:
    """Return the ways of each level; with stages there may be no levels inside."""
    if stages and (levels == 0 if array is None else not array):
        return ()
    most = MOST_DEVICES.bit_length() - 1
    if array is None:
        count = 4 if levels is None else levels
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= most:
            raise OptionError(
                "levels", f"found {count!r}", f"a whole number from {int(not stages)} to {most}"
            )
        return (2,) * count
    whole = all(isinstance(ways, int) and ways > 1 for ways in array)
    if not array or not whole or math.prod(array) > MOST_DEVICES:
        shown = "x".join(str(ways) for ways in array) or "none"
        raise OptionError(
            "array", f"found {shown:.60}", f"ways of 2 or more, at most {MOST_DEVICES:,} devices"
        )
    return tuple(array)


def checked_arrays(
    heterogeneous: Machine, levels: int | None, array: Sequence[int] | None
) -> dict[str, tuple[int, ...]]:
    """Return the ways of each level inside each group of identical devices of a heterogeneous machine.

    Args:
        heterogeneous: the machine.
        levels: the number of uneven splits and two-way levels below; all devices of every group if neither is given.
        array: the ways of each uneven split and of each level below, in place of ``levels``.

    Raises:
        OptionError: they are not numbers of levels or ways.
        HardwareError: they do not fit the device groups, or the devices of a group.
    """
    if levels is None and array is None:
        from hypar.sharding.placement import primes  # noqa: PLC0415 (only for a heterogeneous machine)

        found = {name: tuple(primes(machine.num_devices)) for name, machine, _ in heterogeneous.leaves()}
    else:
        whole = checked_array(levels, array)
        found = {}
        for name, machine, depth in heterogeneous.leaves():
            found[name] = whole[depth:]
            if len(whole) < depth or math.prod(found[name]) > machine.num_devices:
                raise HardwareError(
                    "levels" if array is None else "array",
                    f"found {len(whole)} levels, {depth} of them uneven splits above {name!r}",
                    f"at least {depth}, and at most its {machine.num_devices} devices below them",
                )
        if array is not None:
            require_ways(heterogeneous, whole)
    for name, machine, _ in heterogeneous.leaves():
        if found[name]:
            machine.links(found[name])
    return found


def require_ways(heterogeneous: Machine, array: tuple[int, ...]) -> None:
    """Check that the ways of each uneven split are the number of its device groups."""
    if array[0] != len(heterogeneous.groups):
        groups = len(heterogeneous.groups)
        raise HardwareError(
            "array", f"found {array[0]} ways where {heterogeneous.name!r} has {groups} groups", str(groups)
        )
    for group in heterogeneous.groups:
        if group.machine.groups:
            require_ways(group.machine, array[1:])
