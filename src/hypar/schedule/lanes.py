"""Lanes: groups of identical devices, each with the pieces of its ops."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from hypar.network.nodes import PlanGraph
from hypar.ops.nest import PHASES
from hypar.schedule.pieces import COMMUNICATION, PHASE, Piece, elements_on, merged, placed, transfers_of
from hypar.schedule.pipeline_orders import ALONE
from hypar.sharding.amounts.counted import received_between
from hypar.sharding.amounts.transfers import network_of
from hypar.sharding.conventions import MOVED, PAPER
from hypar.sharding.placement import degrees, working

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hypar.machine.setting import Setting
    from hypar.machine.work import LayerTime
    from hypar.network.nodes import PlanNode, Tensor
    from hypar.schedule.pieces import Crossing, Pieces, Rounds
    from hypar.schedule.pipeline_orders import Moment
    from hypar.schedule.record import Op
    from hypar.sharding.amounts.above import State
    from hypar.sharding.placement import Options

COMPUTE = "devices"
"""The resource that computes: the devices of a lane, which all do the same."""


class StagePlace(NamedTuple):
    """The place of a lane in a pipeline.

    Attributes:
        stages: number of places for stages of as many devices, of which the last may be empty; 0 without a pipeline.
        microbatches: microbatches in a mini-batch; its layers are those of one.
        moments: the pieces of work of its stage, at the moments when most microbatches wait.
        outside: the tensors that its layers read from other stages, or that these read, other parts of its own stage included;
            layers are counted from the lane's first one.
        first: the index of its first layer in the network.
        parts: the lanes of the stage's parts, if there are several.
        shared: the layers whose weight an earlier stage has as well, with the transfers that add up its gradient at the levels
            outside the stages, in place of their own.
    """

    stages: int = 0
    microbatches: int = 1
    moments: tuple[Moment, ...] = ALONE
    outside: tuple[Tensor, ...] = ()
    first: int = 0
    parts: tuple[Lane, ...] = ()
    shared: tuple[tuple[int, Pieces], ...] = ()


Share = tuple[str | None, tuple[float, float]]
"""The dim that an uneven split divides, or None, with the ends of a share of it as fractions."""


class WholeShares(NamedTuple):
    """What the uneven splits above a lane leave it, in whole elements as its devices hold them.

    Attributes:
        graph: the layers, with these sizes.
        ends: for each layer the lane's share at each split.
    """

    graph: PlanGraph
    ends: tuple[tuple[Share, ...], ...]

    @property
    def parts(self) -> list[float]:
        """The fraction of each layer that the innermost split leaves."""
        return [end - start for *_, (_, (start, end)) in self.ends]


class Run:
    """What a run of its program brings a lane from beyond the uneven splits above, in whole elements."""

    def __init__(self, number: int, counted: Callable[[], Lanes]) -> None:
        """Count when it is asked for: times need no memory.

        Args:
            number: the lane's number.
            counted: returns all lanes, and the transfers between them, as a run moves them.
        """
        self._number, self._counted = number, counted

    @property
    def entered(self) -> State | None:
        """The state below these splits."""
        return self._counted()[0][self._number].entered

    @cached_property
    def brought(self) -> float:
        """The bytes of the largest transfer at them, but for gradients, that a device receives."""
        crossings = (own for crossing in self._counted()[1] for own in (*crossing.inside, *crossing.between))
        pieces = (piece for rounds in crossings for pieces in rounds for piece in pieces)
        own = (
            piece.device_bytes[piece.groups.index(self._number)]
            for piece in pieces
            if piece.phase != PHASE and self._number in piece.groups
        )
        return max(own, default=0.0)


class _Devices(NamedTuple):
    """The fields of a lane.

    Attributes:
        graph: the layers, with the sizes that the uneven splits above leave.
        choices: for each layer a choice at each level.
        setting: machine, array, element size, optimizer.
        name: name of the group; empty for the only one.
        depth: number of uneven splits above it.
        entered: the state below these splits; None by ``paper``, which counts each level by itself.
        place: its place in a pipeline.
        shares: what the uneven splits above leave in whole elements; None if there are none.
        run: what a run brings it at these splits; None if there are none, or if their sizes are no whole elements.
        number: its number among the groups of all stages.
    """

    graph: PlanGraph
    choices: Sequence[Options]
    setting: Setting
    name: str = ""
    depth: int = 0
    entered: State | None = None
    place: StagePlace = StagePlace()
    shares: WholeShares | None = None
    run: Run | None = None
    number: int = 0


class Lane(_Devices):
    """Identical devices that do the same at the same time, so that one of them and its links stand for all.

    Work and transfers are computed once, as the same lane is lowered again for every choice of chunks.
    """

    def at(self, name: str, number: int, place: StagePlace) -> Lane:
        """Return the same work under another name and number, at a place in a pipeline."""
        return self._same(self._replace(name=name, number=number, place=place))

    def of(self, graph: PlanGraph) -> Lane:
        """Return the same work of equal layers with other names."""
        return self._same(self._replace(graph=graph))

    def _same(self, other: Lane) -> Lane:
        """Give another lane the work and the transfers that are known of this one."""
        places = {"executed", "inner", "rounds"}
        other.__dict__.update({name: own for name, own in self.__dict__.items() if name not in places})
        return other

    @cached_property
    def executed(self) -> Lane:
        """The lane as a run of its program moves its tensors: as they are counted, by ``moved`` those counted by ``paper``."""
        setting = self.setting
        if setting.convention != PAPER:
            return self
        entered = self.entered if self.run is None else self.run.entered
        return self._replace(setting=replace(setting, convention=MOVED), entered=entered)

    @cached_property
    def times(self) -> tuple[LayerTime | None, ...]:
        """For each layer its time on a device; None without a weight, or if the layer is empty."""
        named = self.setting.machine.measured is not None
        known: dict[object, LayerTime | None] = {}
        found = []
        for layer, chosen in zip(self.graph.layers, self.choices, strict=True):
            # Measured times are those of one layer, not of all layers that are equal to it.
            key = (layer.nest, chosen, layer.name if named else "")
            if key not in known:
                known[key] = self._time(layer, chosen)
            found.append(known[key])
        return tuple(found)

    def _time(self, layer: PlanNode, chosen: Options) -> LayerTime | None:
        machine = self.setting.machine
        if layer.empty or not machine.times(layer.nest):
            return None
        own = degrees(chosen, layer.nest.counted)
        return machine.layer_time(layer.nest, own, self.setting.element_bytes, layer.name)

    @property
    def computing(self) -> Iterator[tuple[int, LayerTime | None, int]]:
        """Each layer by its index in the network, with its time and the number of devices that work, of all parts of its stage."""
        for part in self.place.parts or (self,):
            devices = (working(chosen, part.setting.array)[-1] for chosen in part.choices)
            yield from zip(count(part.place.first), part.times, devices, strict=False)

    @cached_property
    def own_weights(self) -> tuple[float, ...]:
        """For each layer the fraction of its weight on a device that the device does not have for another layer.

        A weight that several layers use has one copy on a device, but below uneven splits, and in each stage that uses it.
        """
        found = [1.0] * len(self.graph.layers)
        if self.graph.ties and not self.depth and self.shares is None and self.entered is None:
            network, array = network_of(self.graph, MOVED), self.setting.array
            for at, tie in enumerate(self.graph.ties, start=len(self.graph.tensors)):
                own, nest = self.choices[tie.consumer], self.graph.layers[tie.consumer].nest
                parts, chosen = network.parts[at][1:], (self.choices[tie.producer], own)
                lacked = received_between(network.between[at], parts, array, chosen)
                held = working(own, array)[-1] * elements_on(nest, "weight", own)
                found[tie.consumer] = math.fsum(one.elements for one in lacked) / held
        return tuple(found)

    @cached_property
    def inner(self) -> tuple[Pieces, ...]:
        """For each layer the transfers inside it."""
        found = [self._measured((layer,), own) for layer, own in enumerate(self._moved[0])]
        levels = self.setting.machine.outside if self.place.shared else 0
        for layer, outside in self.place.shared:
            own = (one for one in found[layer] if one.phase != PHASE or one.level >= levels)
            found[layer] = (*own, *outside)
        return tuple(found)

    @property
    def outer(self) -> tuple[Pieces, ...]:
        """For each tensor the transfers between its two layers."""
        return self._moved[1]

    @cached_property
    def _moved(self) -> tuple[tuple[Pieces, ...], tuple[Pieces, ...]]:
        held = None if self.shares is None else self.shares.graph
        return transfers_of(self.setting, self.graph, self.choices, self.entered, held)

    def _measured(self, layers: Sequence[int], pieces: Pieces) -> Pieces:
        """Return transfers of which the first one of gradients takes all the measured seconds of some layers' exchange, if there are any."""
        times = self.setting.machine.measured
        if times is None or not times.exchanges:
            return pieces
        first = next((at for at, own in enumerate(pieces) if own.phase == PHASE), None)
        spent = times.chunk_s(self.graph.layers[layer].name for layer in layers)
        each = (spent if at == first else own.seconds * (own.phase != PHASE) for at, own in enumerate(pieces))
        return tuple([own._replace(seconds=seconds) for own, seconds in zip(pieces, each, strict=True)])

    @cached_property
    def rounds(self) -> dict[tuple[str, str], list[Rounds]]:
        """The pieces of ops by kind and phase, for each layer, or for each tensor that is moved; ops of equal costs share them."""
        kinds = [("compute", phase) for phase in PHASES] + [("update", "update")]
        times = {id(time): time for time in self.times}
        computed = {key: self._computed(time) for key, time in times.items()}
        moved = {"sum": self.inner, "move": self.outer}
        each = {id(own): own for every in moved.values() for own in every}
        sent = {key: self.sent(own) for key, own in each.items()}
        return {
            **{kind: [computed[id(time)][at] for time in self.times] for at, kind in enumerate(kinds)},
            **{
                (kind, phase): [sent[id(own)].get(phase, ()) for own in every]
                for kind, every in moved.items()
                for phase in PHASES
            },
        }

    def _computed(self, time: LayerTime | None) -> list[Rounds]:
        """Return the computation of each phase of a layer, and its update."""
        if time is None:
            return [()] * (len(PHASES) + 1)
        seconds = {**time.seconds, "update": self.setting.update_seconds(time)}
        return [self._busy(seconds[phase], phase) for phase in (*PHASES, "update")]

    def _busy(self, seconds: float, kind: str) -> Rounds:
        own = (self.number,)
        return ((Piece(own, own, f"{self.name} {COMPUTE}".lstrip(), seconds, kind, kind),),)

    def sent(self, pieces: Pieces, tail: str = "") -> dict[str, Rounds]:
        """Return transfers inside the lane by phase, one after another; links of their own have another name."""
        found: dict[str, Rounds] = {}
        for piece in placed(pieces, self.number, self.name, self.depth):
            own = piece._replace(resource=piece.resource + tail) if tail else piece
            found[own.phase] = (*found.get(own.phase, ()), (own,))
        return found

    def pieces(self, op: Op) -> Rounds:
        """Return the pieces of an op."""
        kind, phase, node, _, _, edge, bucket = op
        if not bucket:
            return self.rounds[kind, phase][node if edge < 0 else edge]
        pieces = self.together(bucket)
        if not self.setting.machine.independent:
            return self.sent(pieces).get(PHASE, ())
        # Each bucket has links of its own, and its latency stalls the devices (CGDP).
        late = self.latencies(pieces)
        stall = self._busy(math.fsum(late), COMMUNICATION) if math.fsum(late) else ()
        rest = (max(0.0, piece.seconds - own) for piece, own in zip(pieces, late, strict=True))
        pieces = tuple([piece._replace(seconds=own) for piece, own in zip(pieces, rest, strict=True)])
        return (*stall, *self.sent(pieces, f" of {self.graph.layers[node].name}").get(PHASE, ()))

    def together(self, bucket: Sequence[int]) -> Pieces:
        """Merge the gradient transfers of some layers into one for each level and collective, innermost level first."""
        alike: dict[tuple[int, str], list[Piece]] = {}
        for piece in (piece for layer in bucket for piece in self.inner[layer] if piece.phase == PHASE):
            alike.setdefault((-piece.level, piece.collective), []).append(piece)
        return self._measured(
            bucket, tuple([merged(own) for _, own in sorted(alike.items(), key=itemgetter(0))])
        )

    def latencies(self, pieces: Pieces) -> list[float]:
        """Return the seconds of each transfer of a bucket that do not depend on its bytes."""
        times = self.setting.machine.measured
        if times is not None and times.exchanges:
            return [0.0 if number else times.sync_s for number in range(len(pieces))]
        return [piece.latency_s for piece in pieces]


Lanes = tuple[list[Lane], list["Crossing"]]
"""Lanes, and the transfers between them at uneven splits."""


def whole_lane(parts: Sequence[Lane]) -> Lane:
    """Return the lane of a stage with the layers of all its parts, between which it has no tensors."""
    if len(parts) == 1:
        return parts[0]
    return parts[0]._replace(
        graph=PlanGraph(tuple(layer for part in parts for layer in part.graph.layers), ()),
        choices=tuple(options for part in parts for options in part.choices),
        place=parts[0].place._replace(outside=(), parts=tuple(parts)),
        shares=None,
        run=None,
    )
