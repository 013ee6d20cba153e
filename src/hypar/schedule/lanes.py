"""Lanes: groups of identical devices, each with the pieces of its ops in a step.

A piece is a computation or a transfer, as choices make something move: some seconds of a resource, on some device groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from hypar.machine.setting import Setting
from hypar.machine.work import LayerTime
from hypar.network.nodes import PlanGraph, Tensor, block_of, computed_again
from hypar.network.training import GATHERED, Formats
from hypar.ops.nest import PHASES, Nest
from hypar.schedule.pipeline_orders import ALONE, Moment
from hypar.schedule.record import Again, Op
from hypar.sharding.amounts.counted import SEAM, Received, State, outermost, received_between, received_inside
from hypar.sharding.amounts.cuts import Above
from hypar.sharding.amounts.transfers import Between, Part, Sums
from hypar.sharding.layout import GroupShare
from hypar.sharding.placement import Options, degrees, working

if TYPE_CHECKING:
    from hypar.machine.links import LevelLink
    from hypar.machine.machine import DeviceGroup

T = TypeVar("T")

PHASE = "gradient"
"""The phase whose results are exchanged in chunks."""

WEIGHT = "weight"
"""The phase of transfers that gather weights."""

COMMUNICATION = "communication"


def level_name(level: int) -> str:
    """Return the name of a level, as ``H1``; of ``SEAM`` it is ``stages``."""
    return "stages" if level == SEAM else f"H{level + 1}"


class Piece(NamedTuple):
    """A computation of some devices, or a transfer at one level.

    Attributes:
        groups: the device groups that it occupies, numbered over all stages.
        waits: the device groups whose buffers it waits for.
        resource: the resource that it takes.
        seconds: its duration.
        kind: its kind, for sums of time: the phase that it computes, ``update``, or ``communication``.
        phase: the phase that it belongs to, also of a transfer.
        collective: the collective of a transfer; empty for all else.
        level: the level of a transfer, 0 for the outermost; ``SEAM``.
        link_bytes: bytes that its link brings: each subgroup of a group receives them.
        num_bytes: bytes that all devices receive.
        link: the link; None for computation, and between stages of the same devices.
        latency_s: the seconds of a transfer that do not depend on its bytes.
    """

    groups: tuple[int, ...]
    waits: tuple[int, ...]
    resource: str
    seconds: float
    kind: str
    phase: str = ""
    collective: str = ""
    level: int = 0
    link_bytes: float = 0.0
    num_bytes: float = 0.0
    link: LevelLink | DeviceGroup | None = None
    latency_s: float = 0.0

    def moving(self, link_bytes: float, num_bytes: float, **fields: str) -> Piece:
        """Return the transfer of other bytes over its link, perhaps in another phase or by another collective."""
        assert self.link is not None  # noqa: S101 (of transfers inside stages)
        line = self.link.line(fields.get("collective", self.collective), link_bytes)
        new: dict[str, Any] = {"seconds": line.seconds(link_bytes), "latency_s": line.latency_s, **fields}
        return self._replace(link_bytes=link_bytes, num_bytes=num_bytes, **new)


Pieces = tuple[Piece, ...]
"""Pieces that run one after another, or a round: pieces beside each other, which wait for what was there before all of them."""

Rounds = tuple[Pieces, ...]
"""The pieces of an op, round after round; none if it takes no time."""

Crossing = tuple[tuple[Rounds, ...], tuple[Rounds, ...]]
"""The transfers between the device groups of an uneven split: the rounds that add up each layer's sums, and that move each tensor."""


def placed(pieces: Pieces, first: int, name: str, depth: int = 0) -> Pieces:
    """Return the pieces of some device groups among those of all stages, of which the first has a number.

    Their resources have a name before their own, if there is one, and their levels are below ``depth`` uneven splits.
    """
    if not (first or name or depth):
        return pieces
    found = []
    for piece in pieces:
        groups, waits = (tuple([first + own for own in each]) for each in piece[:2])
        resource, level = f"{name} {piece.resource}".lstrip(), depth + piece.level
        found.append(piece._replace(groups=groups, waits=waits, resource=resource, level=level))
    return tuple(found)


def together(pieces: Iterable[Piece]) -> Pieces:
    """Return transfers, innermost level first, of which those of one level, collective and group are one, so that latency is paid once."""
    alike: dict[tuple[int, str, tuple[int, ...]], list[Piece]] = {}
    for piece in pieces:
        alike.setdefault((-piece.level, piece.collective, piece.groups), []).append(piece)
    found = []
    for first, *others in (alike[key] for key in sorted(alike)):
        sizes = zip(*[(own.link_bytes, own.num_bytes) for own in (first, *others)], strict=True)
        found.append(first.moving(*map(math.fsum, sizes)) if others else first)
    return tuple(found)


def in_shares(pieces: Sequence[Piece], formats: Formats) -> Pieces:
    """Return the transfers of a layer whose weight rests in shares.

    Those that add up its gradient are halved, as sums stay in shares; the other half gathers the weight, outermost level first.
    """
    size, found, whole = formats.weight / formats.gradient, list[Piece](), list[Piece]()
    for own in pieces:
        halves = own.link_bytes / 2, own.num_bytes / 2
        if own.phase == PHASE:
            whole.append(own.moving(*[size * half for half in halves], phase=WEIGHT, collective="all_gather"))
        found.append(own.moving(*halves, collective="reduce_scatter") if own.phase == PHASE else own)
    return (*found, *reversed(whole))


def priced(setting: Setting, found: Sequence[Received]) -> Pieces:
    """Return the transfers of counted elements on the links of identical devices."""
    pieces, formats = [], setting.formats
    links = setting.machine.links(setting.array) if setting.array else ()
    for phase, _, kind, elements, _, level, receivers in found:
        link = links[level]
        own = Piece((0,), (0,), link.resource, 0.0, COMMUNICATION, phase, kind, level, link=link)
        num_bytes = elements * formats.of(phase)
        pieces.append(own.moving(num_bytes / receivers, num_bytes))
    return tuple(pieces)


@lru_cache(maxsize=16384)
def inside(setting: Setting, nest: Nest, sums: Sums, chosen: Options, above: Above) -> Pieces:
    """Return the transfers of all levels inside a layer, innermost first, so that wider groups exchange sums."""
    return priced(setting, received_inside(nest, sums, setting.array, chosen, above))


@lru_cache(maxsize=16384)
def between(
    setting: Setting, tensor: Between, parts: tuple[Part, ...], above: Above, chosen: tuple[Options, Options]
) -> tuple[Pieces, Pieces]:
    """Return the transfers of a tensor that add up the sums of its producer, innermost first, and the others."""
    found = received_between(tensor, parts, setting.array, chosen, above)
    sums = priced(setting, [one for one in reversed(found) if one.inside])
    return sums, priced(setting, [one for one in found if not one.inside])


Receiver = tuple["DeviceGroup", tuple[int, ...]]
"""A device group that receives from the others of an uneven split, and the numbers of its lanes."""


def crossing(amount: Received, receivers: Sequence[Receiver], level: int, element_bytes: int) -> Pieces:
    """Return the transfers of an amount between the device groups of an uneven split as a round, in which each waits for all.

    The amount has the elements that each of the receivers gets; ``level`` uneven splits are above this one.
    """
    waits = tuple([lane for _, lanes in receivers for lane in lanes])
    kinds, found = (COMMUNICATION, amount.phase, amount.collective, level), list[Piece]()
    for (link, lanes), elements in zip(receivers, amount.elements, strict=True):
        if num_bytes := float(elements) * element_bytes:
            own = Piece(lanes, waits, link.resource, 0.0, *kinds, link=link)
            found.append(own.moving(num_bytes, num_bytes))
    return tuple(found)


# Lanes


class StagePlace(NamedTuple):
    """The place of a lane in a pipeline.

    Attributes:
        stages: number of places for stages of as many devices, of which the last may be empty; 0 without a pipeline.
        microbatches: microbatches in a mini-batch of the pipeline; its layers are those of one.
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
    def resource(self) -> str:
        """The resource that computes: its devices, which all do the same."""
        return f"{self.name} devices".lstrip()

    @property
    def devices(self) -> int:
        """The number of its devices."""
        return math.prod(self.setting.array)

    @cached_property
    def times(self) -> tuple[LayerTime | None, ...]:
        """For each layer its time on a device; None without a weight, or if the layer is empty."""
        machine, found = self.setting.machine, list["LayerTime | None"]()
        sizes = self.setting.element_bytes, self.setting.formats.operand
        for own, chosen in zip(self.graph.layers, self.choices, strict=True):
            nest, timed = own.nest, not own.empty and machine.times(own.nest)
            counts = degrees(chosen, nest.counted) if timed else ()
            found.append(machine.layer_time(nest, counts, *sizes, own.name) if timed else None)
        return tuple(found)

    @cached_property
    def again(self) -> tuple[Again, ...]:
        """What the backward phase computes again: each block of layers with what comes to it, single ones alone."""
        found: dict[str, list[int]] = {}
        again = computed_again(self.graph.layers, self.setting.training.recompute)
        names = {layer.name for layer in self.graph.layers}
        for at, layer in enumerate(self.graph.layers if again else ()):
            for name in again.intersection({layer.name, block_of(layer.name)}):
                found.setdefault(name, []).append(at)
        return tuple([(tuple(nodes), name not in names) for name, nodes in found.items()])

    @cached_property
    def rests(self) -> dict[int, int]:
        """The stage of ZeRO by which the weight of a layer rests, for each that does not lie as it is used.

        Of a weight that several layers use the optimizer state alone, where none of them divides it, as the terms of its gradient come at
        several times; one that other stages have as well lies as it is used.
        """
        zero = self.setting.training.zero
        if not zero:
            return {}
        most = {layer: 0 for layer, *_ in (*self.place.tied, *self.place.shared)}
        whole = [working(chosen, self.setting.array)[-1] for chosen in self.choices]
        for tie in self.graph.ties:
            users = tie.producer, tie.consumer
            alone = all(self.replicas[user] == whole[user] for user in users)
            most |= {user: min(most.get(user, 1), alone) for user in users}
        each = {at: min(zero, most.get(at, zero)) for at, own in enumerate(self.replicas) if own > 1}
        return {at: own for at, own in each.items() if own}

    @cached_property
    def replicas(self) -> list[int]:
        """For each layer the number of devices that add up the gradient of a piece of its weight; 1 without one."""
        found = []
        for layer, chosen in zip(self.graph.layers, self.choices, strict=True):
            dims = [dim for dim in layer.nest.counted if dim not in layer.nest.weight]
            found.append(math.prod(degrees(chosen, tuple(dims))) if layer.nest.weight else 1)
        return found

    @cached_property
    def inner(self) -> tuple[Pieces, ...]:
        """For each layer the transfers inside it, also those that gather its weight where that rests in shares."""
        found = [self._measured((layer,), own) for layer, own in enumerate(self._moved[0])]
        levels = self.setting.machine.outside if self.place.shared else 0
        for layer, outside in self.place.shared:
            own = (one for one in found[layer] if one.phase != PHASE or one.level >= levels)
            found[layer] = (*own, *outside)
        for layer in self.rests:
            found[layer] = in_shares(found[layer], self.setting.formats)
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
        inner, outer = list[Pieces](), list[Pieces]()
        for at, (layer, sums, own) in enumerate(layers):
            inner.append(inside(setting, layer.nest, sums, own, state.inputs[at]))
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
        """The pieces of ops by kind and phase, for each layer, or for each tensor that is moved; ops of equal costs share them.

        Of a weight in shares each device updates its own; up to the second stage of ZeRO the weight is gathered behind that.
        """
        computed, summed = _each(self.times, self._computed), _each(self.inner, self.sent)
        for layer, zero in self.rests.items():
            if time := self.times[layer]:
                own = self._busy(self.setting.update_seconds(time) / self.replicas[layer], "update")
                gathered = summed[WEIGHT][layer] if zero < GATHERED else ()
                computed["update"][layer] = (*own, *gathered)
        return {"compute": computed, "update": computed, "sum": summed, "move": _each(self.outer, self.sent)}

    def _computed(self, time: LayerTime | None) -> dict[str, Rounds]:
        each = {} if time is None else {**time.seconds, "update": self.setting.update_seconds(time)}
        return {phase: self._busy(seconds, phase) for phase, seconds in each.items()}

    def _busy(self, seconds: float, kind: str) -> Rounds:
        own = (self.number,)
        return ((Piece(own, own, self.resource, seconds, kind, kind),),)

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
