"""When gradients that are sent in chunks have all arrived: a closed form for each manner of exchange.

Layers are counted in the order of the backward phase: with ``n`` of them done it has taken ``ready[n]`` seconds, and
their gradients take ``sent[n]``. A chunk has the layers past ``start`` up to ``end``. Its *span* is the time from the
beginning of the backward phase until the last thing that it decides alone has ended; the longest span is when all is
done, and the chunk that has it is critical.

A span is no longer for a smaller ``end``, a larger ``start`` or fewer chunks, rounding included. So within a bound
nothing is gained by a smaller chunk than the bound allows, which is what ``within`` rests on.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Protocol

from hypar.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hypar.schedule.chunks.times import StepTimes

Sizes = tuple[int, ...]
"""How many layers each chunk has, in the order of the backward phase."""


class Exchange(Protocol):
    """A manner of exchanging gradients.

    Attributes:
        stalls: whether a chunk's synchronisation stalls the backward phase, and its exchange no other chunk's.
    """

    stalls: bool

    def spans(self, times: StepTimes, sizes: Sizes) -> list[float]:
        """The span of each chunk, in seconds."""

    def least(self, times: StepTimes) -> float:
        """What some span is at least, whatever the chunks."""

    def within(self, times: StepTimes, bound: float) -> Sizes | None:
        """The fewest chunks without a longer span than a bound; None where there are none."""


class Independent:
    """Every chunk is sent by itself, however many are on their way; its synchronisation stalls the backward phase.

    ``ready[end] + (chunks up to and with it) sync + sent[end] - sent[start]``. Source: CGDP, its cost model.
    """

    stalls = True

    def spans(self, times: StepTimes, sizes: Sizes) -> list[float]:
        """As the chunks are numbered from the first."""
        return [self._span(times, number, *ends) for number, ends in enumerate(_ends(sizes), 1)]

    def least(self, times: StepTimes) -> float:
        """Every layer alone in the first chunk: its own is no earlier, and no other."""
        alone = range(len(times.layers))
        return max(self._span(times, 1, start, start + 1) for start in alone)

    def within(self, times: StepTimes, bound: float) -> Sizes | None:
        """From the first chunk on, each as large as the bound allows."""
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
    """One link sends one chunk after another; a chunk begins, with its synchronisation, when the link is free.

    ``ready[end] + (chunks from it to the last) sync + sent[all] - sent[start]``: from the end of its backward phase on
    the link is busy. Source: Li et al., PyTorch Distributed (VLDB 2020), section 3.2, whose buckets are such chunks.
    """

    stalls = False

    def spans(self, times: StepTimes, sizes: Sizes) -> list[float]:
        """As the chunks are numbered from the last."""
        return [
            self._span(times, len(sizes) - number, end, start)
            for number, (start, end) in enumerate(_ends(sizes))
        ]

    def least(self, times: StepTimes) -> float:
        """Every layer alone in the last chunk, but that all is sent that comes after it."""
        alone = range(len(times.layers))
        return max(self._span(times, 1, start + 1, start) for start in alone)

    def within(self, times: StepTimes, bound: float) -> Sizes | None:
        """From the last chunk back, each as large as the bound allows."""
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
"""Manners of exchange by name."""


def exchange_named(name: str) -> Exchange:
    """A manner of exchange.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if name not in EXCHANGES:
        raise UnknownNameError("exchange", str(name), EXCHANGES)
    return EXCHANGES[name]


def typical(times: StepTimes, exchange: Exchange) -> tuple[StepTimes, Sizes]:
    """Typical data parallelism: everything is exchanged after the backward phase, as one chunk.

    Where synchronisation is what stalls the backward phase there is none to stall: CGDP counts none.
    """
    return (replace(times, sync_s=0.0) if exchange.stalls else times), (len(times.layers),)


def _ends(sizes: Sizes) -> Iterator[tuple[int, int]]:
    """Start and end of each chunk."""
    return pairwise(accumulate(sizes, initial=0))
