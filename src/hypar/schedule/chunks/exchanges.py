"""Closed forms of the time at which all chunks of gradients have arrived, one for each manner of exchange.

Layers are counted in the order of the backward phase: ``n`` of them take ``ready[n]`` seconds, and their gradients take
``sent[n]``. A chunk has the layers past ``start`` up to ``end``. Its *span* is the time from the beginning of the
backward phase until the last event that it decides alone; the longest span is the time at which all chunks have
arrived, and its chunk is critical.

A smaller ``end``, a larger ``start`` or fewer chunks never lengthen a span, rounding included. So within a bound
a chunk smaller than the bound allows gains nothing; ``within`` relies on this.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hypar.machine.step_times import StepTimes

Sizes = tuple[int, ...]
"""The number of layers of each chunk, in the order of the backward phase."""


class Exchange(Protocol):
    """A manner of exchanging gradients."""

    def spans(self, times: StepTimes, sizes: Sizes) -> list[float]:
        """Return the span of each chunk, in seconds."""

    def least(self, times: StepTimes) -> float:
        """Return a lower bound on the longest span of any chunks."""

    def within(self, times: StepTimes, bound: float) -> Sizes | None:
        """Return the fewest chunks with no span above a bound; None if there are none."""


class Independent:
    """Independent exchanges of any number of chunks at a time; each synchronisation stalls the backward phase.

    ``ready[end] + (chunks up to and with it) sync + sent[end] - sent[start]``. Source: CGDP, its cost model.
    """

    def spans(self, times: StepTimes, sizes: Sizes) -> list[float]:
        """Return the span of each chunk, with chunks numbered from the first."""
        return [self._span(times, number, *ends) for number, ends in enumerate(_ends(sizes), 1)]

    def least(self, times: StepTimes) -> float:
        """Return the longest span of a single layer as the first chunk, which no chunks can undercut."""
        alone = range(len(times.layers))
        return max(self._span(times, 1, start, start + 1) for start in alone)

    def within(self, times: StepTimes, bound: float) -> Sizes | None:
        """Return chunks from the first on, each as large as the bound allows."""
        sizes: list[int] = []
        start, last = 0, len(times.layers)
        while start < last:
            span = partial(self._span, times, len(sizes) + 1, start)
            size = bisect_right(range(start + 1, last + 1), bound, key=span)
            if not size:
                return None
            sizes.append(size)
            start += size
        return tuple(sizes)

    @staticmethod
    def _span(times: StepTimes, number: int, start: int, end: int) -> float:
        return times.ready[end] + number * times.sync_s + (times.sent[end] - times.sent[start])


class Serial:
    """One link for one chunk after another; a chunk begins, with its synchronisation, when the link is free.

    ``ready[end] + (chunks from it to the last) sync + sent[all] - sent[start]``: the link is busy from the end of its
    backward phase on. Source: Li et al., PyTorch Distributed (VLDB 2020), section 3.2, whose buckets are such chunks.
    """

    def spans(self, times: StepTimes, sizes: Sizes) -> list[float]:
        """Return the span of each chunk, with chunks numbered from the last."""
        return [
            self._span(times, len(sizes) - number, end, start)
            for number, (start, end) in enumerate(_ends(sizes))
        ]

    def least(self, times: StepTimes) -> float:
        """Return the longest span of a single layer as the last chunk, with all later layers sent as well."""
        alone = range(len(times.layers))
        return max(self._span(times, 1, start + 1, start) for start in alone)

    def within(self, times: StepTimes, bound: float) -> Sizes | None:
        """Return chunks from the last back, each as large as the bound allows."""
        sizes: list[int] = []
        end = len(times.layers)
        while end:
            span = partial(self._span, times, len(sizes) + 1, end)
            size = bisect_right(range(end - 1, -1, -1), bound, key=span)
            if not size:
                return None
            sizes.append(size)
            end -= size
        return tuple(reversed(sizes))

    @staticmethod
    def _span(times: StepTimes, number: int, end: int, start: int) -> float:
        return times.ready[end] + number * times.sync_s + (times.sent[-1] - times.sent[start])


EXCHANGES: Mapping[str, Exchange] = {"independent": Independent(), "serial": Serial()}
"""Manners of exchange by name, as in the assumption of a machine."""


def _ends(sizes: Sizes) -> Iterator[tuple[int, int]]:
    return pairwise(accumulate(sizes, initial=0))
