"""A span of layers that is cut, as a stage: what a mini-batch takes of its time, and of its devices' memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hypar.schedule.lanes import Lane
    from hypar.schedule.step import Step
    from hypar.searches.base import Answer
    from hypar.staging.phases import Phases


class Cuts(NamedTuple):
    """A span with its best cuts.

    Attributes:
        answer: what the search found.
        lane: its layers for a microbatch, their choices, and what they run on.
        step: the tasks of a microbatch.
        phases: how long these take.
        memory: bytes on each device, those of one microbatch's activations among them.
    """

    answer: Answer
    lane: Lane
    step: Step
    phases: Phases
    memory: dict[str, float]


class CutSpan(NamedTuple):
    """A span as a stage.

    Attributes:
        cuts: its cuts.
        received_s: seconds to receive a microbatch's F.
        returned_s: seconds to receive its E.
        received_bytes: bytes that all its devices receive of F.
        returned_bytes: bytes that they receive of E.
    """

    cuts: Cuts
    received_s: float
    returned_s: float
    received_bytes: float
    returned_bytes: float

    def seconds(self, microbatches: int) -> float:
        """What a mini-batch keeps it busy, were it never to wait for another stage; with overlap it or its links."""
        phases = self.cuts.phases
        computing = microbatches * (phases.forward + phases.backward) + phases.once
        if self.cuts.lane.setting.machine.overlap:
            return max(computing, microbatches * max(self.received_s, self.returned_s))
        return computing + microbatches * (self.received_s + self.returned_s)

    def held(self, in_flight: int) -> dict[str, float]:
        """Bytes on each device with so many microbatches in flight, and a buffer for the largest transfer."""
        memory, devices = self.cuts.memory, math.prod(self.cuts.lane.setting.array)
        buffer = max(memory["buffers"], self.received_bytes / devices, self.returned_bytes / devices)
        return {**memory, "activations": in_flight * memory["activations"], "buffers": buffer}
