"""Candidate sizes of chunks."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from hypar.machine.step_times import LayerTimes, StepTimes
from hypar.schedule.buckets import EXCHANGES, best_sizes
from hypar.schedule.moves import PHASE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.schedule.buckets import Sizes
    from hypar.schedule.lanes import Lane
    from hypar.schedule.step import Step


def candidates(lanes: Sequence[Lane], step: Step, layers: tuple[int, ...]) -> Iterator[Sizes]:
    """Yield single layers, one chunk, the sizes of a closed form, and those of CGDP's rule for 2, 4, 8 and so on.

    Args:
        lanes: the groups of identical devices; the closed form is for one group only.
        step: the step with every layer in its own chunk.
        layers: the layers that exchange gradients, in the order of the backward phase, at least one.
    """
    count = len(layers)
    yield (1,) * count
    yield (count,)
    if len(lanes) == 1:
        exchange = lanes[0].setting.machine.content.assumptions.exchange.value
        yield best_sizes(_times(lanes[0], step, layers), EXCHANGES[exchange])
    for power in range(1, (count - 1).bit_length()):
        yield rule_sizes(count, 2**power)


def rule_sizes(layers: int, size: int) -> Sizes:
    """Return chunks of one size from the last layer down, then single layers for those that are left over.

    If none are left over, the last chunk is divided into single layers, as late gradients should be small.

    Examples:
        >>> rule_sizes(6, 3), rule_sizes(7, 3)
        ((3, 1, 1, 1), (3, 3, 1))
    """
    whole = layers // size - (layers % size == 0)
    return (size,) * whole + (1,) * (layers - whole * size)


def neighbours(sizes: Sizes) -> Iterator[Sizes]:
    """Yield the sizes after joining two chunks, moving a layer between them, halving a chunk or cutting off an end.

    Examples:
        >>> list(neighbours((2, 1)))
        [(3,), (1, 2), (1, 1, 1)]
    """
    for at, (own, following) in enumerate(pairwise(sizes)):
        before, behind = sizes[:at], sizes[at + 2 :]
        yield (*before, own + following, *behind)
        if own > 1:
            yield (*before, own - 1, following + 1, *behind)
        if following > 1:
            yield (*before, own + 1, following - 1, *behind)
    for at, size in enumerate(sizes):
        for ahead in dict.fromkeys((size - size // 2, 1, size - 1)) if size > 1 else ():
            yield (*sizes[:at], ahead, size - ahead, *sizes[at + 1 :])


def _times(lane: Lane, step: Step, layers: tuple[int, ...]) -> StepTimes:
    """Return the times of the layers that exchange gradients; other layers' backward time counts for the next one."""
    computed = [0.0] * len(lane.graph.layers)
    for task, layer, move in zip(step.tasks, step.layers, step.moves, strict=True):
        if move is None and task.kind in {"backward", PHASE}:
            computed[layer] += task.seconds
    moves = {layer: lane.together((layer,)) for layer in layers}
    late = {layer: math.fsum(lane.latencies(own)) for layer, own in moves.items()}
    sent = {layer: math.fsum(move.seconds for move in own) for layer, own in moves.items()}
    found = [
        LayerTimes(
            name=lane.graph.layers[layer].name,
            forward_s=0.0,
            backward_s=sum(computed[layer:behind]),
            exchange_s=max(0.0, sent[layer] - late[layer]),
        )
        for behind, layer in pairwise((len(computed), *layers))
    ]
    return StepTimes(layers=tuple(reversed(found)), sync_s=max(late.values()))
