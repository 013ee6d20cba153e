"""Choose the chunks in which the gradients of a plan are exchanged, and run the step.

The engine decides: ``best`` takes the fastest of several candidates, of which single layers are the first, and then
moves to neighbouring chunks as long as that is faster, or until the devices of a group always compute. The result is never slower than single layers; it claims no
optimum. If the step with single layers fits the devices' memory, chunks that do not fit are rejected.
"""

from __future__ import annotations

from itertools import accumulate, groupby, pairwise, takewhile
from typing import TYPE_CHECKING, NamedTuple

from hypar.plan.records import ChunksRecord
from hypar.planning.chunks.candidates import candidates, neighbours, rule_sizes
from hypar.schedule.memory import holds
from hypar.schedule.step import exchanging

if TYPE_CHECKING:
    from hypar.plan.records import Asked
    from hypar.schedule.buckets import Sizes
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
    trials = _Trials(work, exchanging(plain))
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
    for task in step.tasks:
        if task.kind != "communication":
            found[task.resource] = found.get(task.resource, 0.0) + task.seconds
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
