"""Buckets of gradients by a closed form: the time at which all of them have arrived, and the best sizes.

Layers are counted in the order of the backward phase: ``n`` of them take ``ready[n]`` seconds, and their gradients take
``sent[n]``. A bucket has the layers past ``start`` up to ``end``. Its *span* is the time from the beginning of the
backward phase until the last event that it decides alone; the longest span is the time at which all buckets have
arrived. A smaller ``end``, a larger ``start`` or fewer buckets never lengthen a span, rounding included.

Recurrence: within a bound on the time, ``reach(c) = the furthest end of a bucket that begins at reach(c - 1) and whose
span is within the bound``, ``reach(0) = 0``; for one serial link the same from the last bucket back. A bucket that begins
further, or has a smaller number, never has the longer span, so only the furthest of the ends that ``c`` buckets reach
needs to be kept, and the bound can be met if and only if ``reach`` comes to the end.

Search: bisection over the bound until no float lies between a bound that can be met and one that cannot. Every bound
that is met is lowered to the longest span of the buckets that meet it.

Guarantee: no buckets have a smaller longest span, in the exact floats of the closed form; among equal times the fewest
buckets; among those the largest, one by one: from the first bucket on if exchanges are independent, from the last back
on a serial link. Cost: some 60 bounds, ``c log n`` steps each for ``c`` buckets of ``n`` layers.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.machine.step_times import StepTimes

Sizes = tuple[int, ...]
"""The number of layers of each bucket, in the order of the backward phase."""


class Exchange(NamedTuple):
    """A manner of exchanging gradients.

    Independent: any number of buckets at a time; each synchronisation stalls the backward phase, so that buckets are numbered
    from the first. Source: CGDP, its cost model. Serial: one link for one bucket after another, each of which begins, with its
    synchronisation, when the link is free, so that it is busy from the bucket's backward phase to the end, and buckets are
    numbered from the last. Source: Li et al., PyTorch Distributed (VLDB 2020), section 3.2.
    """

    serial: bool

    def _span(self, times: StepTimes, number: int, start: int, end: int) -> float:
        until = len(times.layers) if self.serial else end
        return times.ready[end] + number * times.sync_s + (times.sent[until] - times.sent[start])

    def spans(self, times: StepTimes, sizes: Sizes) -> list[float]:
        """Return the span of each bucket, in seconds."""
        numbers = range(len(sizes), 0, -1) if self.serial else range(1, len(sizes) + 1)
        ends = pairwise(accumulate(sizes, initial=0))
        return [self._span(times, number, *own) for number, own in zip(numbers, ends, strict=True)]

    def within(self, times: StepTimes, bound: float) -> Sizes | None:
        """Return the fewest buckets with no span above a bound, each as large as the bound allows; None if there are none."""
        sizes: list[int] = []
        last, done = len(times.layers), 0

        def span(size: int) -> float:
            start, end = (last - done - size, last - done) if self.serial else (done, done + size)
            return self._span(times, len(sizes) + 1, start, end)

        while done < last:
            size = bisect_right(range(1, last - done + 1), bound, key=span)
            if not size:
                return None
            sizes.append(size)
            done += size
        return tuple(reversed(sizes)) if self.serial else tuple(sizes)


EXCHANGES: Mapping[str, Exchange] = {"independent": Exchange(serial=False), "serial": Exchange(serial=True)}
"""Manners of exchange by name, as in the assumption of a machine."""


def best_sizes(times: StepTimes, exchange: Exchange) -> Sizes:
    """Return the buckets of one layer at least with the smallest longest span."""
    low = 0.0
    sizes: Sizes = (len(times.layers),)
    high = max(exchange.spans(times, sizes))
    while low < (middle := (low + high) / 2) < high:
        found = exchange.within(times, middle)
        if found is None:
            low = middle
        else:
            sizes, high = found, max(exchange.spans(times, found))
    return sizes
