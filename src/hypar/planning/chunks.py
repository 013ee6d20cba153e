"""The step of a planned node, and the chunks in which it exchanges gradients, which only the engine can judge.

*Chunks:* ``best`` takes the fastest of several candidates, of which single layers are the first, and then moves to
neighbouring chunks as long as that is faster, or until the devices of a group always compute. If the step with single layers
fits the devices' memory, chunks that do not fit are rejected.

*Closed form:* the candidate of one group of devices has the chunks, here buckets, after which all gradients have arrived first.
Layers are counted in the order of the backward phase: ``n`` of them take ``ready[n]`` seconds, and their gradients take
``sent[n]``. A bucket has the layers past ``start`` up to ``end``. Its *span* is the time from the beginning of the
backward phase until the last event that it decides alone. *Independent* exchanges are any number at a time; each
synchronisation stalls the backward phase, so that buckets are numbered from the first. Source: CGDP, its cost model. A
*serial* link takes one bucket after another, each with its synchronisation, and is busy from a bucket's backward phase to
the end, so that buckets are numbered from the last. Source: Li et al., PyTorch Distributed (VLDB 2020), section 3.2.

Recurrence: within a bound on the time, each bucket in turn has the most layers with a span within the bound. A bucket that
begins further, or has a smaller number, never has the longer span, rounding included, so the bound can be met if and only
if these buckets come to the end. Search: bisection over the bound until no float lies between a bound that can be met and
one that cannot; every bound that is met is lowered to the longest span of the buckets that meet it.
Guarantee: no buckets have a smaller longest span, in the exact floats of the closed form; among equal times the fewest
buckets; among those the largest, one by one, in the order of their numbers. Cost: some 60 bounds, ``c log n`` steps each
for ``c`` buckets of ``n`` layers.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, groupby, pairwise
from typing import TypeVar

from hypar.errors import PlanError, shown
from hypar.machine.machine import Machine
from hypar.machine.work import LayerTimes, StepTimes
from hypar.plan.records import Chunks, ChunksRecord, Score
from hypar.schedule.lanes import COMMUNICATION, PHASE, Lane
from hypar.schedule.memory import held_by, holds
from hypar.schedule.record import Buckets
from hypar.schedule.stages import Step, StepWork, summarise

T = TypeVar("T", bound=Hashable)

Sizes = tuple[int, ...]
"""The number of layers of each bucket, in the order of the backward phase."""

MOST_TRIES = 100
"""Largest number of chunks tried after the candidates: half a second for 156 layers."""


def faster(seconds: float, than: float) -> bool:
    """Return whether a time is less than another one, by more than rounding."""
    return seconds < than * (1 - 1e-12)


@dataclass(frozen=True, eq=False)
class Ran:
    """A step that was run, with the record of its chunks; None if none were requested."""

    work: StepWork
    step: Step
    chunks: ChunksRecord | None = None

    @property
    def seconds(self) -> float:
        """The engine's time for the step."""
        return self.step.timeline.makespan

    @cached_property
    def fits(self) -> bool:
        """Whether it fits the devices' memory."""
        return holds(self.work.lanes, self.step.buckets)

    @cached_property
    def held(self) -> float:
        """The most bytes on a device."""
        return max(held_by(lane, self.step.buckets) for lane in self.work.lanes)

    def beats(self, other: Ran) -> bool:
        """Return whether only this one fits the memory or, if both or neither fit, whether it is faster."""
        return self.gains(other) or (not other.fits and self.fits)

    def gains(self, other: Ran) -> bool:
        """Return whether it is faster, and fits the memory if the other one does."""
        return faster(self.seconds, other.seconds) and (not other.fits or self.fits)

    def shrinks(self, other: Ran) -> bool:
        """Return whether it holds less."""
        return faster(self.held, other.held)

    def score(self, machine: Machine) -> Score:
        """Return the score of the step."""
        return summarise(self.work.lanes, self.step, machine)


def run_chunked(work: StepWork, asked: Chunks | None = None) -> Ran:
    """Lower the work of devices to a step and run it, with gradients in the requested chunks; None for none on record.

    Raises ``HardwareError`` if an array does not fit its machine.
    """
    plain = work.plain
    if asked is None:
        return Ran(work, plain)
    layers, count = plain.exchanging, len(plain.exchanging)
    best = alone = work.run(_split(work, layers, (1,) * count))
    if asked == "best":
        best = _fastest_chunks(work, layers, alone)
    elif count and asked != "layers":
        best = work.run(_split(work, layers, (count,) if asked == "one" else rule_sizes(count, asked)))
    names = [layer.name for layer in work.layers]
    chunks = [[names[layer] for layer in chunk] for chunk in best.buckets]
    return Ran(work, best, ChunksRecord(asked=asked, layers=chunks, alone_s=alone.timeline.makespan))


def _split(work: StepWork, layers: Sequence[int], sizes: Sizes) -> Buckets:
    """Divide layers into chunks of given sizes, none of which is of two stages."""
    chunks = [layers[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]
    stages = [stage for stage, own in enumerate(work.stages) for _ in range(own.layers)]
    return tuple([tuple(own) for chunk in chunks for _, own in groupby(chunk, key=stages.__getitem__)])


def _fastest_chunks(work: StepWork, layers: tuple[int, ...], alone: Step) -> Step:
    """Return the step of the fastest candidate, improved by local search; ``alone`` is that of single layers."""
    candidates = tuple(_candidates(work.lanes, alone, layers)) if layers else ()
    least_s, sizes = computing_s(alone), (1,) * len(layers)

    def moves(own: Sizes, ran: Ran) -> Iterable[Sizes]:
        return chain(candidates, neighbours(own)) if faster(least_s, ran.seconds) else ()

    def run(own: Sizes) -> Ran:
        return Ran(work, work.run(_split(work, layers, own)))

    most = len({*candidates} - {sizes}) + MOST_TRIES
    return climb(sizes, Ran(work, alone), moves, run, most)[1].step


def climb(
    best: T, ran: Ran, moves: Callable[[T, Ran], Iterable[T]], run: Callable[[T], Ran], most: int
) -> tuple[T, Ran]:
    """Move to the first of the moves from the best that gains, as long as there is any; ``most`` are run, each once."""
    tried = {best}
    for _ in range(most):
        ahead = next((own for own in moves(best, ran) if own not in tried), None)
        if ahead is None:
            break
        tried.add(ahead)
        new = run(ahead)
        best, ran = (ahead, new) if new.gains(ran) else (best, ran)
    return best, ran


def computing_s(step: Step) -> float:
    """Return the longest time that devices compute in a step, which no chunks can undercut."""
    found: dict[str, float] = {}
    for piece in step.pieces:
        if piece.kind != COMMUNICATION:
            found[piece.resource] = found.get(piece.resource, 0.0) + piece.seconds
    return max(found.values(), default=0.0)


def chunks_of(record: ChunksRecord | None, work: StepWork, place: str) -> Buckets | None:
    """Return the chunks that a plan records at a place, by the indices of their layers; None if it records no chunks.

    Raises ``PlanError`` if a layer exchanges gradients and is in no chunk, or is in a chunk and exchanges none.
    """
    if record is None:
        return None
    names = [layer.name for layer in work.layers]
    planned, needed = {*chain(*record.layers)}, {names[number] for number in work.run().exchanging}
    for name in sorted(planned ^ needed, key=names.index):
        words = ("exchanges no gradients", "exchanges gradients and is in no chunk")[name in needed]
        allowed = "every layer that does, in one chunk, and no other"
        raise PlanError(place, f"{shown(name)} {words}", allowed)
    return tuple(tuple(map(names.index, chunk)) for chunk in record.layers)


def spans(times: StepTimes, sizes: Sizes, *, serial: bool) -> list[float]:
    """Return the span of each bucket in seconds, by the closed form of exchanges over a serial link, or of independent ones."""
    numbers = range(len(sizes), 0, -1) if serial else range(1, len(sizes) + 1)
    ends = pairwise(accumulate(sizes, initial=0))
    return [_span(times, serial, number, *own) for number, own in zip(numbers, ends, strict=True)]


def _span(times: StepTimes, serial: bool, number: int, start: int, end: int) -> float:
    until = len(times.layers) if serial else end
    return times.ready[end] + number * times.sync_s + (times.sent[until] - times.sent[start])


def _within(times: StepTimes, serial: bool, bound: float) -> Sizes | None:
    """Return the fewest buckets with no span above a bound, each as large as the bound allows; None if there are none."""
    sizes: list[int] = []
    last, done = len(times.layers), 0

    def span(size: int) -> float:
        start, end = (last - done - size, last - done) if serial else (done, done + size)
        return _span(times, serial, len(sizes) + 1, start, end)

    while done < last:
        size = bisect_right(range(1, last - done + 1), bound, key=span)
        if not size:
            return None
        sizes.append(size)
        done += size
    return tuple(reversed(sizes)) if serial else tuple(sizes)


def best_sizes(times: StepTimes, *, serial: bool) -> Sizes:
    """Return the buckets of one layer at least with the smallest longest span."""
    low = 0.0
    sizes: Sizes = (len(times.layers),)
    high = max(spans(times, sizes, serial=serial))
    while low < (middle := (low + high) / 2) < high:
        found = _within(times, serial, middle)
        if found is None:
            low = middle
        else:
            sizes, high = found, max(spans(times, found, serial=serial))
    return sizes


def _candidates(lanes: Sequence[Lane], step: Step, layers: tuple[int, ...]) -> Iterator[Sizes]:
    """Yield one chunk, the sizes of a closed form, and those of CGDP's rule for 2, 4, 8 and so on.

    ``step`` has every layer in its own chunk; ``layers`` are those that exchange gradients, in the order of the backward
    phase, at least one. The closed form is for one group of identical devices.
    """
    count = len(layers)
    yield (count,)
    if len(lanes) == 1:
        exchange = lanes[0].setting.machine.content.assumptions.exchange.value
        yield best_sizes(_times(lanes[0], step, layers), serial=exchange == "serial")
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
    for piece, place in zip(step.pieces, step.places, strict=True):
        if piece.kind in {"backward", PHASE}:
            computed[place.layer] += piece.seconds
    pieces = {layer: lane.together((layer,)) for layer in layers}
    late = {layer: math.fsum(piece.latency_s for piece in own) for layer, own in pieces.items()}
    sent = {layer: math.fsum(piece.seconds for piece in own) for layer, own in pieces.items()}
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
