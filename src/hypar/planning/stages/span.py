"""A span of layers as a stage with cuts: its time for a mini-batch, and its devices' memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from hypar.schedule.pieces import COMMUNICATION, PHASE
from hypar.schedule.timeline import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.network.nodes import Tensor
    from hypar.planning.levels import Node
    from hypar.schedule.costed import Entering, Link
    from hypar.schedule.lanes import Lane
    from hypar.schedule.pieces import Crossing, Piece
    from hypar.schedule.step import Step
    from hypar.schedule.timeline import Task


class Cuts(NamedTuple):
    """The cuts of a span.

    Attributes:
        node: the planned devices, with the layers of a microbatch and the costs of a mini-batch.
        solver: the name of its solver.
        lanes: its layers for a microbatch, their choices and their setting, on each group of identical devices.
        crossings: the transfers at uneven splits between the groups, outer splits first.
        phases: the durations of the tasks of a microbatch.
        memory: returns the bytes on each device of each group, including one microbatch's activations; counted once.
    """

    node: Node
    solver: str
    lanes: tuple[Lane, ...]
    crossings: tuple[Crossing, ...]
    phases: Phases
    memory: Callable[[], tuple[dict[str, float], ...]]

    @property
    def lane(self) -> Lane:
        """The first group of identical devices, with the layers of all."""
        return self.lanes[0]

    @property
    def devices(self) -> int:
        """The number of devices of all groups."""
        return sum(lane.devices for lane in self.lanes)

    @property
    def overlap(self) -> bool:
        """Whether transfers run beside computation on all devices."""
        return all(lane.setting.machine.overlap for lane in self.lanes)

    @property
    def macs(self) -> int:
        """The multiply-accumulates of a microbatch forward, on all groups."""
        return sum(layer.nest.macs for layer in self.node.graph.layers)


class Outer(NamedTuple):
    """A layer of another stage.

    Attributes:
        cuts: the cuts of that stage.
        layer: the index of the layer there.
    """

    cuts: Cuts
    layer: int


class Links(NamedTuple):
    """The links that carry tensors to a stage; None if no other stage is there.

    Attributes:
        forward: the link from the stage before.
        backward: the link from the stage behind.
    """

    forward: Link | None = None
    backward: Link | None = None


class Site(NamedTuple):
    """The devices on which a span may be a stage.

    Attributes:
        group: name of the device group; None if all devices of the machine are identical.
        stages: number of stages on the devices of that group.
        links: the links that carry tensors from other stages.
        outside: the number of levels and uneven splits outside the stages.
    """

    group: str | None = None
    stages: int = 1
    links: Links = Links()
    outside: int = 0


class CutSpan(NamedTuple):
    """A span of layers as a stage.

    Attributes:
        cuts: its cuts.
        received: a microbatch's F that other stages send.
        returned: its E that they send.
        in_step: whether all stages wait for each other after each mini-batch.
        site: the devices that it is for.
        tensors: the tensors of the whole network for a microbatch.
        ties: the weights that two layers of the network use; none by ``paper``.
        shared_bytes: the most that one of its devices receives of the gradient of a weight that layers of other stages use.
    """

    cuts: Cuts
    received: Entering
    returned: Entering
    in_step: bool = False
    site: Site = Site()
    tensors: tuple[Tensor, ...] = ()
    ties: tuple[Tensor, ...] = ()
    shared_bytes: float = 0.0

    @property
    def layers(self) -> int:
        """The number of its layers."""
        return len(self.cuts.lane.graph.layers)

    def seconds(self, microbatches: int) -> float:
        """Return its busy time for a mini-batch without waiting; with overlap, at least the time of its links."""
        phases = self.cuts.phases
        computing = microbatches * (phases.forward + phases.backward) + phases.once
        if self.cuts.overlap:
            return max(computing, microbatches * max(self.received.seconds, self.returned.seconds))
        return computing + microbatches * (self.received.seconds + self.returned.seconds)

    def cost(self, balance: str, microbatches: int, in_flight: int) -> float:
        """Return the quantity that a partition minimises in its costliest stage.

        Args:
            balance: one of ``BALANCES``.
            microbatches: microbatches in a mini-batch.
            in_flight: the largest number of microbatches whose activations it keeps.
        """
        if balance == "memory":
            return max(self.held_bytes(in_flight))
        if balance == "traffic":
            return microbatches * (self.received.from_stages + self.returned.from_stages)
        if balance == "macs":
            return microbatches * self.cuts.macs
        if self.in_step and self.cuts.overlap:
            return self._step_seconds()
        return self.seconds(microbatches)

    def _step_seconds(self) -> float:
        """Return the time of a mini-batch until its last send has arrived, if transfers overlap with computation.

        Over each end of a stage as many bytes are sent as received, so what it sends takes as long as what it receives there.
        """
        forward, backward, once, _ = self.cuts.phases
        return forward + max(self.returned.seconds, backward + max(once, self.received.seconds))

    def held(self, in_flight: int, group: int = 0) -> dict[str, float]:
        """Return the bytes on each device with microbatches in flight.

        Args:
            in_flight: the number of microbatches.
            group: the index of the devices among the groups of identical devices.
        """
        memory = self.cuts.memory()[group]
        buffers = max(memory["buffers"], self.shared_bytes)
        return {**memory, "activations": in_flight * memory["activations"], "buffers": buffers}

    def held_bytes(self, in_flight: int) -> list[float]:
        """Return the bytes on each device of each group of identical devices with microbatches in flight."""
        return [math.fsum(self.held(in_flight, group).values()) for group in range(len(self.cuts.lanes))]

    def fits(self, in_flight: int) -> bool:
        """Return whether all its devices hold as much with microbatches in flight."""
        each = zip(self.cuts.lanes, self.held_bytes(in_flight), strict=True)
        return all(lane.setting.machine.fits(held) for lane, held in each)


class LayerBounds(NamedTuple):
    """The lower bounds of a layer.

    Attributes:
        seconds: time for a mini-batch.
        forward: time of the computation of the forward phase of a microbatch.
        weights: elements of its weight on the fullest device.
        input: the fraction of its input on the fullest device.
        output: the fraction of its output there.
        error: elements of the error of its trail's output there.
        kept: elements that it and its trail keep there for each microbatch in flight.
    """

    seconds: float = 0.0
    forward: float = 0.0
    weights: float = 0.0
    input: float = 0.0
    output: float = 0.0
    error: float = 0.0
    kept: float = 0.0


class Phases(NamedTuple):
    """The durations of a stage's phases, without transfers from other stages.

    Attributes:
        forward: seconds for the forward phase of a microbatch.
        backward: seconds for the backward phase of a microbatch, with its gradients.
        once: seconds for exchanging gradients and updating, after the last microbatch of a mini-batch.
        behind: the seconds of the backward phase behind the error that goes to the stage before: the first layer's gradient.
    """

    forward: float
    backward: float
    once: float
    behind: float


def phases_in_turn(step: Step) -> Phases:
    """Return the phases of a microbatch's step on a lane without overlap: all that it does, one after another."""
    spent: dict[str, list[float]] = {phase: [] for phase in ("forward", "backward", "once")}
    for piece in step.pieces:
        spent[_phase(piece)].append(piece.seconds)
    first = zip(step.pieces, step.places, strict=True)
    behind = sum(piece.seconds for piece, place in first if piece.kind == PHASE and place.layer == 0)
    forward, backward, once = map(math.fsum, spent.values())
    return Phases(forward, backward, once, behind)


def phases_beside(step: Step) -> Phases:
    """Return the phases of a microbatch's step whose transfers overlap, or whose device groups work beside each other.

    The engine gives their durations, each from its own beginning: gradients are exchanged during the last backward
    phase. A phase then gets no longer because another gets shorter.
    """
    kinds = [*map(_phase, step.pieces)]
    forward, backward, behind = (
        _makespan(step.timeline.tasks, [phase in some for phase in kinds])
        for some in (("forward",), ("backward",), ("backward", "once"))
    )
    return Phases(forward, backward, max(0.0, behind - backward), 0.0)


def _phase(piece: Piece) -> str:
    # Communication without a phase is the stall of the devices for an exchange of gradients.
    exchanges = piece.kind == COMMUNICATION and piece.phase in {PHASE, COMMUNICATION}
    if piece.kind == "update" or exchanges:
        return "once"
    return "forward" if piece.phase == "forward" else "backward"


def _makespan(tasks: Sequence[Task], kept: Sequence[bool]) -> float:
    """Return the duration of the kept tasks if the others have already ended."""
    index = {old: new for new, old in enumerate(old for old, keep in enumerate(kept) if keep)}
    return run(
        [
            tasks[old]._replace(after=tuple(index[before] for before in tasks[old].after if before in index))
            for old in index
        ]
    ).makespan
