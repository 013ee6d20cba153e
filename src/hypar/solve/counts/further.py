"""Costs of a tensor that are no products over the levels.

Latency, which a level charges for each transfer that moves anything there; and what layers receive of which only some devices
work at the innermost level, a group of its own: nothing of a tensor is shared there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hypar.solve.counts.states import Cells
    from hypar.solve.edge import Costs

    Counts = NDArray[np.integer[Any]]


class Once(NamedTuple):
    """The levels at which a transfer between two layers moves something, as a sum over levels.

    The number of those levels is a number for each option of either end, less ``shared * s``, plus ``everywhere`` times the levels at
    which both ends have the whole tensor. At these nothing is moved unless something was moved further out: then they
    count as well where ``again`` is set. Inside a group of levels they come first, which is a lower bound.

    Attributes:
        made: for each option of the producer.
        read: for each option of the consumer.
        shared: the weight of ``s``.
        everywhere: the weight of the levels at which both have the whole tensor.
        again: whether these levels move something below others that do.
    """

    made: tuple[int, ...]
    read: tuple[int, ...]
    shared: int
    everywhere: int
    again: bool


def once_costs(
    transfers: Sequence[Once],
    ends: tuple[Sequence[Counts], Sequence[Counts]],
    met: tuple[Mapping[int, Counts], Mapping[int, Counts]],
    latencies: Sequence[float],
) -> Costs | float:
    """Return the least fixed costs of some transfers.

    Args:
        transfers: the transfers.
        ends: for each group how often producer and consumer take each option, with options last.
        met: ``s`` of each group, and the part of it of options that divide in different ways.
        latencies: the fixed cost of a transfer in each group.
    """
    found: Costs | float = 0.0
    totals, lacks = met
    for transfer in transfers:
        before: NDArray[np.bool_] | None = None
        for group, latency in enumerate(latencies):
            together = totals[group] - lacks[group]
            # Numbers of levels are small: small integers are several times as fast.
            made, read = (np.array(own, dtype=np.int16) for own in (transfer.made, transfer.read))
            sure = (ends[0][group] @ made) + (ends[1][group] @ read)
            sure = sure - np.int16(transfer.shared) * totals[group] + np.int16(transfer.everywhere) * together
            if latency:
                number = sure if before is None or not transfer.again else sure + together * before
                found = found + latency * number
            moves = sure > 0
            before = moves if before is None else before | moves
    return found


class Idle(NamedTuple):
    """A tensor between two layers that may leave devices idle at the innermost level.

    Attributes:
        ends: the option of producer and consumer that does; None for none.
        whole: for each option of producer and consumer 1 if every device has the whole tensor, otherwise 0.
        received: weight of what the producer receives, and of what the consumer does.
    """

    ends: tuple[int | None, int | None]
    whole: tuple[tuple[int, ...], tuple[int, ...]]
    received: tuple[float, float]


def idle_costs(
    idle: Idle,
    ends: tuple[Sequence[Counts], Sequence[Counts]],
    totals: Mapping[int, Counts],
    cells: Cells,
) -> Costs | float:
    """Return a lower bound of what a tensor costs more because devices are idle: an end that is needs what the other divides.

    Args:
        idle: the tensor.
        ends: for each group how often producer and consumer take each option, with options last.
        totals: ``s`` of each group.
        cells: the groups.
    """
    *_, shared = cells.products(totals, 1.0)
    found: Costs | float = 0.0
    for end, (option, received) in enumerate(zip(idle.ends, idle.received, strict=True)):
        if option is None or not received:
            continue
        other, there = idle.ends[1 - end], ends[1 - end][-1]
        met = there @ np.array(idle.whole[1 - end])
        met = met if other is None else met + there[..., other]
        found = found + received * np.where(ends[end][-1][..., option] > met, shared, 0.0)
    return found
