"""The best grouping of the layers into chunks.

Recurrence: within a bound on the time, ``reach(c) = the furthest end of a chunk that begins at reach(c - 1) and whose
span is within the bound``, ``reach(0) = 0``; for one serial link the same from the last chunk back. A chunk that begins
further, or has a smaller number, never has the longer span, so only the furthest of the ends that ``c`` chunks reach
needs to be kept, and the bound can be met if and only if ``reach`` comes to the end.

Search: bisection over the bound until no float lies between a bound that can be met and one that cannot. Every bound
that is met is lowered to the longest span of the chunks that meet it.

Guarantee: no chunks have a smaller longest span, in the exact floats of the closed form; among equal times the fewest
chunks; among those the largest, one by one: from the first chunk on if exchanges are independent, from the last back
on a serial link. Cost: some 50 bounds, ``c log n`` steps each for ``c`` chunks of ``n`` layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypar.machine.step_times import StepTimes
    from hypar.schedule.chunks.exchanges import Exchange, Sizes


def best_sizes(times: StepTimes, exchange: Exchange) -> Sizes:
    """Return the chunks with the smallest longest span.

    Args:
        times: seconds layer by layer, one layer at least.
        exchange: the manner of exchange.
    """
    low = exchange.least(times)
    at_least = exchange.within(times, low)
    if at_least is not None:
        return at_least
    sizes: Sizes = (len(times.layers),)
    high = max(exchange.spans(times, sizes))
    while low < (middle := (low + high) / 2) < high:
        found = exchange.within(times, middle)
        if found is None:
            low = middle
        else:
            sizes, high = found, max(exchange.spans(times, found))
    return sizes
