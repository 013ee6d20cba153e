"""Gradients that are added up at several levels of one network: by one collective over all of their subgroups.

Level after level, innermost first, a device receives the bytes of one all-reduce over all subgroups of the levels: the sums
of an inner level are exchanged in shards by the next. But while a level exchanges, the links of the others are idle. One
collective may use them all at once. The bytes of each level stay as they are counted, and each level has the part of the
time that it has of the bytes.
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hypar.machine.routing import LevelLink
    from hypar.machine.setting import Setting

Run = tuple[int, int]
"""The outermost and the innermost of some adjacent levels."""


def joined(setting: Setting, received: dict[int, float], separate: dict[int, float]) -> dict[int, Run]:
    """Return the levels at which one collective over several levels is faster than one level after another.

    Args:
        setting: machine and array.
        received: for each level at which all subgroups add up a gradient the bytes that each of them receives.
        separate: the seconds of each of these levels by itself.

    Returns:
        For each of the levels the levels of the collective that it is part of; none for a level by itself.
    """
    found: dict[int, Run] = {}
    for first, last in _runs(setting, received):
        if setting.machine.joined(setting.array, first, last) is not None:
            levels = range(first, last + 1)
            together = [joined_seconds(setting, (first, last), level, received[level]) for level in levels]
            if math.fsum(together) < math.fsum(separate[level] for level in levels):
                found.update(dict.fromkeys(levels, (first, last)))
    return found


def joined_seconds(setting: Setting, run: Run, level: int, subgroup_bytes: float) -> float:
    """Return a level's part of the time of one collective over several levels.

    Args:
        setting: machine and array.
        run: the levels of the collective.
        level: one of them.
        subgroup_bytes: bytes that each subgroup of this level receives at this level.
    """
    link, part, received = _of_run(setting, run, level, subgroup_bytes)
    return part * float(link.seconds("all_reduce", received))


def joined_latency(setting: Setting, run: Run, level: int, subgroup_bytes: float) -> float:
    """Return the seconds of ``joined_seconds`` that do not depend on the bytes; arguments as there."""
    link, part, received = _of_run(setting, run, level, subgroup_bytes)
    return part * link.line("all_reduce", received).latency_s


def _of_run(setting: Setting, run: Run, level: int, subgroup_bytes: float) -> tuple[LevelLink, float, float]:
    """Return the link of a collective, a level's part of its bytes, and the bytes that each of its subgroups receives."""
    (first, last), array = run, setting.array
    link = setting.machine.joined(array, first, last)
    assert link is not None  # noqa: S101 (only collectives that can be routed are chosen)
    part = bytes_part(array[first : last + 1], level - first)
    return link, part, subgroup_bytes / (part * math.prod(array[level + 1 : last + 1]))


def bytes_part(ways: tuple[int, ...], level: int) -> float:
    """Return the fraction of the bytes of an all-reduce over some levels that one of them receives.

    Examples:
        >>> [bytes_part((2, 2, 2), level) for level in range(3)]
        [0.14285714285714285, 0.2857142857142857, 0.5714285714285714]
    """
    return math.prod(ways[:level]) * (ways[level] - 1) / (math.prod(ways) - 1)


def _runs(setting: Setting, levels: Iterable[int]) -> Iterator[Run]:
    """Yield the longest runs of adjacent levels on one network that allows collectives over several levels."""
    links = setting.machine.links(setting.array)
    joins = {level: links[level].joins for level in sorted(levels)}
    adjacent = groupby(enumerate(joins), key=lambda one: (one[1] - one[0], joins[one[1]]))
    for (_, network), group in adjacent:
        run = [level for _, level in group]
        if network is not None and len(run) > 1:
            yield run[0], run[-1]
