"""Time of a collective as the least of several lines over its bytes, one for each algorithm worth using."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

SAME = 1 + 1e-9
"""Ratio up to which two bandwidths are equal but for rounding."""


class Line(NamedTuple):
    """Time of one algorithm: ``latency_s + bytes * seconds_per_byte``.

    Attributes:
        latency_s: time that does not depend on the bytes.
        seconds_per_byte: time per byte that one subgroup receives.
        algorithm: the algorithm's name.
    """

    latency_s: float
    seconds_per_byte: float
    algorithm: str

    def seconds(self, num_bytes: Any) -> Any:
        """Return the time of some bytes, a number or an array."""
        return num_bytes * self.seconds_per_byte + self.latency_s


Lines = tuple[Line, ...]
"""The lines that are least for some bytes, in ascending order of latency and of bandwidth."""


def least(lines: Iterable[Line]) -> Lines:
    """Return the lines that are least for some bytes, from the one for few bytes to the one for many.

    Examples:
        >>> [line.algorithm for line in least([Line(2, 1, "ring"), Line(1, 4, "tree"), Line(3, 1, "slow")])]
        ['tree', 'ring']
    """
    found: list[Line] = []
    for line in sorted(lines):
        # Of equal bandwidths, up to rounding, the one with less latency counts.
        if found and line.seconds_per_byte * SAME >= found[-1].seconds_per_byte:
            continue
        while len(found) > 1 and _crossing(found[-1], line) <= _crossing(found[-2], found[-1]):
            found.pop()
        if found and line.latency_s <= found[-1].latency_s:
            found.pop()
        found.append(line)
    return tuple(found)


def _crossing(one: Line, other: Line) -> float:
    """Return the bytes from which the second line, of more bandwidth, is less."""
    return (other.latency_s - one.latency_s) / (one.seconds_per_byte - other.seconds_per_byte)


def fastest(lines: Lines, num_bytes: float) -> Line:
    """Return the line that is least for some bytes; of equal ones the first."""
    return min(lines, key=lambda line: line.seconds(num_bytes))


def seconds(lines: Lines, num_bytes: Any) -> Any:
    """Return the least time of some bytes, a number or an array."""
    if len(lines) == 1:
        return lines[0].seconds(num_bytes)
    times = [line.seconds(num_bytes) for line in lines]
    return np.minimum.reduce(times) if isinstance(num_bytes, np.ndarray) else min(times)
