"""Choose the chunks in which the gradients of a plan are exchanged, and run the step.

The engine decides: ``best`` takes the fastest of several candidates, of which single layers are the first, and then
moves to neighbouring chunks as long as that is faster, or until the devices of a group always compute. The result is never slower than single layers; it claims no
optimum. If the step with single layers fits the devices' memory, chunks that do not fit are rejected.
"""

from __future__ import annotations

import math
from itertools import accumulate, groupby, pairwise, takewhile
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import PlanError, shown
from hypar.machine.step_times import LayerTimes, StepTimes
from hypar.plan.records import ChunksRecord
from hypar.planning.chunks.buckets import EXCHANGES, best_sizes
from hypar.schedule.memory import holds
from hypar.schedule.pieces import COMMUNICATION, PHASE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.plan.records import Asked
    from hypar.planning.chunks.buckets import Sizes
    from hypar.schedule.lanes import Lane
    from hypar.schedule.record import Buckets
    from hypar.schedule.stages import StepWork
    from hypar.schedule.step import Step
    from hypar.schedule.timeline import Timeline

LEAST_GAIN = 1e-12
"""Relative gain below which chunks do not count as faster."""

MOST_TRIES = 100
"""Largest number of tries after the candidates: half a second for 156 layers."""


class Chunked(NamedTuple):
    """A step that was run, with its chunks.

    Attributes:
        step: its tasks, and when each ran.
        chunks: the record of its chunks; None if none were requested.
    """

    step: Step
    chunks: ChunksRecord | None = None

    @property
    def timeline(self) -> Timeline:
        """When each task ran."""
        return self.step.timeline


def run_chunked(work: StepWork, asked: Asked | None = None) -> Chunked:
    """Lower a step and run it, with gradients in the requested chunks.

    Args:
        work: the devices with their work.
        asked: the requested chunks; None for single layers without a record.

    Raises:
        HardwareError: an array does not fit its machine.
    """
    plain = work.run()
    if asked is None:
        return Chunked(plain)
    trials = _Trials(work, plain.exchanging)
    count, alone_s = len(trials.layers), trials.best.timeline.makespan
    if asked == "best":
        trials.search()
    elif count and asked != "layers":
        trials.take((count,) if asked == "one" else rule_sizes(count, asked))
    names = [layer.name for layer in work.layers]
    record = ChunksRecord(
        asked=asked,
        layers=[[names[layer] for layer in chunk] for chunk in trials.split(trials.sizes)],
        alone_s=alone_s,
    )
    return Chunked(trials.best, record)


def computing_s(step: Step) -> float:
    """Return the longest time that devices compute in a step, which no chunks can undercut."""
    found: dict[str, float] = {}
    for piece in step.pieces:
        if piece.kind != COMMUNICATION:
            found[piece.resource] = found.get(piece.resource, 0.0) + piece.seconds
    return max(found.values(), default=0.0)


class _Trials:
    """The current chunks of a search, which starts from single layers."""

    def __init__(self, work: StepWork, layers: tuple[int, ...]) -> None:
        self.work, self.layers = work, layers
        self.take((1,) * len(layers))
        self.tried = {self.sizes}

    def split(self, sizes: Sizes) -> Buckets:
        """Divide the layers into chunks of given sizes, none of which is of two stages."""
        chunks = [self.layers[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]
        stages = [stage for stage, own in enumerate(self.work.stages) for _ in range(own.layers)]
        return tuple([tuple(own) for chunk in chunks for _, own in groupby(chunk, key=stages.__getitem__)])

    def take(self, sizes: Sizes) -> None:
        """Take chunks without comparing them."""
        self.sizes: Sizes = sizes
        self.best: Step = self.work.run(self.split(sizes))

    def search(self) -> None:
        """Take the fastest candidate, then improve it by local search."""
        lanes = self.work.lanes
        held, least_s = holds(lanes, self.best), computing_s(self.best)
        for sizes in candidates(lanes, self.best, self.layers) if self.layers else ():
            if self._seconds > least_s:
                self._gains(sizes, held=held)
        most = len(self.tried) + MOST_TRIES
        while self._seconds > least_s and any(
            self._gains(sizes, held=held)
            for sizes in takewhile(lambda _: len(self.tried) < most, neighbours(self.sizes))
        ):
            pass

    @property
    def _seconds(self) -> float:
        """Return the time of the step, less what does not count as a gain."""
        return self.best.timeline.makespan * (1 - LEAST_GAIN)

    def _gains(self, sizes: Sizes, *, held: bool) -> bool:
        """Take chunks if they are new and faster, and still fit the memory if the first step did."""
        if sizes in self.tried:
            return False
        self.tried.add(sizes)
        ran = self.work.run(self.split(sizes))
        if ran.timeline.makespan >= self._seconds or (held and not holds(self.work.lanes, ran)):
            return False
        self.sizes, self.best = sizes, ran
        return True


def chunks_of(record: ChunksRecord | None, work: StepWork, place: str) -> Buckets | None:
    """Return the chunks that a plan records, by the indices of their layers; None if it records no chunks.

    Args:
        record: chunks of layers that the plan has, in the order of the backward phase.
        work: the devices that run it, with their work.
        place: the place of the record, for error messages.

    Raises:
        PlanError: a layer exchanges gradients and is in no chunk, or is in a chunk and exchanges none.
    """
    if record is None:
        return None
    layers = {layer.name: number for number, layer in enumerate(work.layers)}
    found = tuple(tuple(layers[name] for name in chunk) for chunk in record.layers)
    planned = {number for chunk in found for number in chunk}
    needed = {*work.run().exchanging}
    for name, number in layers.items():
        if (number in planned) != (number in needed):
            words = ("exchanges no gradients", "exchanges gradients and is in no chunk")[number in needed]
            raise PlanError(
                place, f"{shown(name)} {words}", "every layer that does, in one chunk, and no other"
            )
    return found


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
