"""Shift the ends of stages' parts one by one as long as the estimated step gets shorter.

The costliest part says little of the costliest stage, which works for several of them. So the partition whose costliest
part costs least is only the start of a search. Cost: one estimate for each end and direction in a round.
Guarantee: the estimate is never longer than at the start.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hypar.planning.stages.running import estimated_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hypar.planning.resolved import Resolved
    from hypar.planning.stages.span import CutSpan
    from hypar.planning.stages.spans import CutSpans

MOST_WORK = 20_000
"""Pieces of work in all estimated steps at most, which take some seconds."""


def shifted(
    request: Resolved,
    microbatches: int,
    spans: Sequence[CutSpans],
    bounds: Sequence[int],
    fits: Callable[[Sequence[CutSpan]], bool],
) -> tuple[int, ...]:
    """Return the bounds of the parts of a partition after shifts of their ends.

    Args:
        request: the request.
        microbatches: microbatches in a mini-batch.
        spans: for each part the spans on its devices.
        bounds: the first layer of each part, and the number of layers.
        fits: returns whether parts fit the memory.
    """

    def parts(ends: Sequence[int]) -> list[CutSpan]:
        return [own.span(*pair) for own, pair in zip(spans, pairwise(ends), strict=True)]

    best = tuple(bounds)
    least, tried = estimated_s(request, microbatches, parts(best)), {best}
    most = MOST_WORK // (2 * microbatches * len(spans))
    while True:
        ahead = next((ends for ends in _neighbours(best, spans[0].ends) if ends not in tried), None)
        if ahead is None or len(tried) > most:
            return best
        tried.add(ahead)
        found = parts(ahead)
        seconds = estimated_s(request, microbatches, found)
        if seconds < least and fits(found):
            least, best = seconds, ahead


def _neighbours(bounds: tuple[int, ...], places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the partitions with one end a place further or nearer."""
    for at in range(1, len(bounds) - 1):
        own = places.index(bounds[at])
        for place in (places[own - 1], places[own + 1]):
            if bounds[at - 1] < place < bounds[at + 1]:
                yield (*bounds[:at], place, *bounds[at + 1 :])
