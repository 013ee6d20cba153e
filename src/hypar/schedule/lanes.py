"""Lanes: groups of identical devices, each with the pieces of its ops."""

from __future__ import annotations

import math
from functools import cached_property
from itertools import chain, count, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from hypar.network.nodes import PlanGraph, Tensor, block_of, computed_again, kept_in_shards
from hypar.network.training import AS_USUAL, GATHERED
from hypar.ops.nest import PHASES
from hypar.schedule.pieces import (
    COMMUNICATION,
    PHASE,
    WEIGHT,
    Crossing,
    Piece,
    Pieces,
    Rounds,
    between,
    gathered,
    inside,
    placed,
    shared,
    together,
)
from hypar.schedule.pipeline_orders import ALONE, Moment
from hypar.schedule.record import Again
from hypar.sharding.amounts.counted import State, outermost
from hypar.sharding.layout import GroupShare
from hypar.sharding.placement import Options, degrees, working

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hypar.machine.setting import Setting
    from hypar.machine.work import LayerTime
    from hypar.network.nodes import PlanNode
    from hypar.schedule.record import Op

T = TypeVar("T")

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
        tied: its layers whose weight other stages have as well, with the number of stages from which they get terms, or sums.
        shared: the layers whose weight an earlier stage has as well, with the transfers that add up its gradient at the levels
            outside the stages, in place of their own.
    """

    stages: int = 0
    microbatches: int = 1
    moments: tuple[Moment, ...] = ALONE
    outside: tuple[Tensor, ...] = ()
    first: int = 0
    parts: tuple[Lane, ...] = ()
    tied: tuple[tuple[int, int], ...] = ()
    shared: tuple[tuple[int, Pieces], ...] = ()


Ends = tuple[tuple[GroupShare, ...], ...]
"""For each layer its share at each uneven split, in whole elements; nothing if there are none."""


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
        ends: its shares at the uneven splits above.
        number: its number among the groups of all stages.
        zero: for each layer a stage of ZeRO; empty for that of the setting.
        recompute: for each layer what of it is computed again, one of ``RECOMPUTED``; empty for that of the setting.
    """

    graph: PlanGraph
    choices: Sequence[Options]
    setting: Setting
    name: str = ""
    depth: int = 0
    entered: State | None = None
    place: StagePlace = StagePlace()
    ends: Ends = ()
    number: int = 0
    zero: tuple[int, ...] = ()
    recompute: tuple[str, ...] = ()


class Lane(_Devices):
    """Identical devices that do the same at the same time, so that one of them and its links stand for all.

    Work and transfers are computed once, as the same lane is lowered again for every choice of chunks.
    """

    def having(self, **fields: Any) -> Lane:
        """Return the same work under another name and number, at a place in a pipeline, or of equal layers with other names."""
        found = self._replace(**fields)
        known = {"times", "_moved"}
        found.__dict__.update({name: own for name, own in self.__dict__.items() if name in known})
        return found

    @property
    def devices(self) -> int:
        """The number of its devices."""
        return math.prod(self.setting.array)

    @cached_property
    def times(self) -> tuple[LayerTime | None, ...]:
        """For each layer its time on a device; None without a weight, or if the layer is empty."""
        machine, size = self.setting.machine, self.setting.element_bytes
        every = ((own, own.nest, chosen) for own, chosen in zip(self.graph.layers, self.choices, strict=True))
        return tuple(
            [
                None
                if own.empty or not machine.times(nest)
                else machine.layer_time(nest, degrees(chosen, nest.counted), size, own.name)
                for own, nest, chosen in every
            ]
        )

    @property
    def computing(self) -> Iterator[tuple[int, LayerTime | None, int, int, int]]:
        """Each layer by its index in the network, with its time, the devices that work, those that share an update, and forward phases.

        They are the layers of all parts of its stage.
        """
        for part in self.place.parts or (self,):
            again = {node for own in part.again for node in own.nodes}
            forward = [1 + (at in again) for at in range(len(part.times))]
            each = part.times, part._working, part.sharing, forward
            yield from zip(count(part.place.first), *each, strict=False)

    @property
    def recomputed(self) -> frozenset[str]:
        """The names of the blocks, and of the single layers, that the backward phase computes again."""
        return self._by_recompute(computed_again)

    @property
    def shards(self) -> frozenset[str]:
        """The names of the layers of whose gathered inputs devices keep shards."""
        return self._by_recompute(kept_in_shards)

    def _by_recompute(
        self, of: Callable[[Iterable[PlanNode], str | Iterable[str]], frozenset[str]]
    ) -> frozenset[str]:
        own = self.setting.training.recompute
        if not self.recompute and own == AS_USUAL.recompute:
            return frozenset()
        return of(self.graph.layers, self.recompute or own)

    @cached_property
    def again(self) -> tuple[Again, ...]:
        """What the backward phase computes again: each block of layers with what comes to it, single ones alone."""
        found: dict[str, list[int]] = {}
        for at, layer in enumerate(self.graph.layers if self.recomputed else ()):
            for name in self.recomputed.intersection({layer.name, block_of(layer.name)}):
                found.setdefault(name, []).append(at)
        names = {layer.name for layer in self.graph.layers}
        return tuple([Again(tuple(nodes), name not in names) for name, nodes in found.items()])

    @cached_property
    def rests(self) -> tuple[int, ...]:
        """For each layer the stage of ZeRO by which its weight rests; empty where all weights lie as they are used.

        Of a weight that several layers use the optimizer state alone, where none of them divides it, as the terms of its gradient come at
        several times; one that other stages have as well lies as it is used.
        """
        zero = self.zero or (self.setting.training.zero,) * len(self.graph.layers)
        if not any(zero):
            return ()
        most = {layer: 0 for layer, *_ in (*self.place.tied, *self.place.shared)}
        for tie in self.graph.ties:
            users = tie.producer, tie.consumer
            divided = any(self._replicas[user] < self._working[user] for user in users)
            most |= {user: min(most.get(user, 1), 0 if divided else 1) for user in users}
        each = enumerate(zip(zero, self._replicas, strict=True))
        return tuple([min(own, most.get(at, own)) if several > 1 else 0 for at, (own, several) in each])

    @cached_property
    def _working(self) -> list[int]:
        """For each layer the number of devices that work."""
        return [working(chosen, self.setting.array)[-1] for chosen in self.choices]

    @cached_property
    def _replicas(self) -> list[int]:
        """For each layer the number of devices that add up the gradient of a piece of its weight; 1 without one."""
        found = []
        for layer, chosen in zip(self.graph.layers, self.choices, strict=True):
            own, dims = layer.nest, layer.nest.counted
            each = zip(dims, degrees(chosen, dims), strict=True)
            found.append(
                math.prod(degree for dim, degree in each if dim not in own.weight) if own.weight else 1
            )
        return found

    @property
    def sharing(self) -> list[int]:
        """For each layer the number of devices that share the update of a piece of its weight."""
        if not self.rests:
            return [1] * len(self.graph.layers)
        return [several if zero else 1 for zero, several in zip(self.rests, self._replicas, strict=True)]

    @cached_property
    def inner(self) -> tuple[Pieces, ...]:
        """For each layer the transfers inside it, without those that gather its weight."""
        found = self._inner
        if not self.rests:
            return found
        return tuple([shared(own) if zero else own for own, zero in zip(found, self.rests, strict=True)])

    @property
    def gathers(self) -> tuple[Pieces, ...]:
        """For each layer the transfers that gather its weight where that rests in shares."""
        each, formats = zip(self._inner, self.rests, strict=False), self.setting.formats
        return tuple([gathered(own, formats) if zero else () for own, zero in each])

    @cached_property
    def _inner(self) -> tuple[Pieces, ...]:
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
        """The transfers inside each layer, and of each tensor; equal ones are one object.

        The gradient of a weight that two layers use is added up inside the layer whose weight it is.
        """
        graph, setting = self.graph, self.setting
        state = self.entered or outermost(graph, setting.convention)
        layers = zip(graph.layers, state.network.sums, self.choices, strict=True)
        inner = [
            inside(setting, layer.nest, sums, own, state.inputs[at])
            for at, (layer, sums, own) in enumerate(layers)
        ]
        outer = []
        for at, tensor in enumerate(state.network.tensors):
            pair = self.choices[tensor.producer], self.choices[tensor.consumer]
            added, sent = between(setting, *state.tensor(at), pair)
            inner[tensor.producer] += added
            outer.append(sent)
        return tuple(inner), tuple(outer[: len(graph.tensors)])

    def _measured(self, layers: Sequence[int], pieces: Pieces) -> Pieces:
        """Return transfers, of which the first one of gradients takes all the measured seconds of some layers' exchange."""
        times = self.setting.machine.measured
        if times is None or not times.exchanges:
            return pieces
        whole = times.chunk_s(self.graph.layers[layer].name for layer in layers), times.sync_s
        left = chain([whole], repeat((0.0, 0.0)))
        each = (next(left) if own.phase == PHASE else (own.seconds, own.latency_s) for own in pieces)
        pairs = zip(pieces, each, strict=True)
        return tuple([own._replace(seconds=seconds, latency_s=late) for own, (seconds, late) in pairs])

    @cached_property
    def rounds(self) -> dict[str, dict[str, list[Rounds]]]:
        """The pieces of ops by kind and phase, for each layer, or for each tensor that is moved; ops of equal costs share them."""
        computed, inner, outer = _each(self.times, self._computed), self.inner, self.outer
        moved = {"sum": _each(inner, self.sent), "move": _each(outer, self.sent)}
        return {"compute": computed, "update": computed, **moved, **self._resting(computed)}

    def _resting(self, computed: dict[str, list[Rounds]]) -> dict[str, dict[str, list[Rounds]]]:
        """Return the pieces of ops of weights in shares: an update of a share, and what gathers the weight."""
        if not self.rests:
            return {}
        gathers = _each(self.gathers, self.sent)[WEIGHT]
        rows = [*zip(self.times, computed["update"], self.sharing, self.rests, gathers, strict=True)]
        updates = [
            (*(self._busy(self.setting.update_seconds(time) / several, "update") if time else own),
             *(sent if 0 < zero < GATHERED else ()))
            for time, own, several, zero, sent in rows
        ]  # fmt: skip
        each = [sent if zero == GATHERED else () for *_, zero, sent in rows]
        return {"update": {"update": updates}, "gather": {"forward": each, "backward": each}}

    def _computed(self, time: LayerTime | None) -> dict[str, Rounds]:
        each = {} if time is None else {**time.seconds, "update": self.setting.update_seconds(time)}
        return {phase: self._busy(seconds, phase) for phase, seconds in each.items()}

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
        """Return the pieces of an op.

        On a machine of independent exchanges (CGDP) each bucket has links of its own, and its latency stalls the devices.
        """
        kind, phase, node, _, _, edge, bucket, _ = op
        if not bucket:
            return self.rounds[kind][phase][node if edge < 0 else edge]
        pieces = self.together(bucket)
        if not self.setting.machine.independent:
            return self.sent(pieces).get(phase, ())
        late = math.fsum(own.latency_s for own in pieces)
        rest = tuple([own._replace(seconds=max(0.0, own.seconds - own.latency_s)) for own in pieces])
        sent = self.sent(rest, f" of {self.graph.layers[node].name}").get(phase, ())
        return (*self._busy(late, COMMUNICATION), *sent) if late else sent

    def together(self, bucket: Sequence[int]) -> Pieces:
        """Merge the gradient transfers of some layers into one for each level and collective, innermost level first."""
        every = (piece for layer in bucket for piece in self.inner[layer])
        return self._measured(bucket, together(piece for piece in every if piece.phase == PHASE))


def _each(every: Sequence[T], of: Callable[[T], dict[str, Rounds]]) -> dict[str, list[Rounds]]:
    """Return the pieces of layers or tensors phase by phase, found once for each object."""
    known = {key: of(own) for key, own in {id(own): own for own in every}.items()}
    return {phase: [known[id(own)].get(phase, ()) for own in every] for phase in (*PHASES, "update", WEIGHT)}


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
        ends=(),
    )
