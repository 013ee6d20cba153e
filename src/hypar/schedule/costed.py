"""The seconds of the ops of a record on the device groups of a part of a stage: pieces of time on resources."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from hypar.ops.nest import PHASES
from hypar.schedule.moves import BETWEEN_STAGES, PHASE, Move, Moves, merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hypar.schedule.entering import Entering
    from hypar.schedule.lanes import Crossing, Lane
    from hypar.schedule.record import Op
    from hypar.sharding.amounts.above import Amount

COMPUTE = "devices"
"""The resource that computes: the devices of a lane, which all do the same."""

COMMUNICATION = "communication"
"""The kind of transfers."""

OUTWARD = " outward links"
"""The resource of a group that receives from the other groups of an uneven split, behind its name."""


class Piece(NamedTuple):
    """A piece of an op: some seconds of a resource.

    Attributes:
        groups: the device groups that it occupies, numbered over all stages.
        waits: the device groups whose buffers it waits for.
        resource: the resource.
        seconds: its duration.
        kind: its kind, for sums of time.
        move: the transfer; None for computation.
    """

    groups: tuple[int, ...]
    waits: tuple[int, ...]
    resource: str
    seconds: float
    kind: str
    move: Move | None = None


Round = tuple[Piece, ...]
"""Pieces that run beside each other: each waits for what was there before all of them."""

Rounds = tuple[Round, ...]
"""The pieces of an op, round after round; none if it takes no time."""

Costed = tuple["Op", Rounds]
"""An op with its pieces."""


class GroupCosts:
    """The pieces of ops on one device group; ops of equal costs share them."""

    def __init__(self, lane: Lane, number: int) -> None:
        """Find the pieces of all ops but buckets.

        Args:
            lane: the group.
            number: its number over all stages.
        """
        self.lane, self.own = lane, (number,)
        tag = f"{lane.name} " if lane.name else ""
        links = lane.setting.machine.links(lane.setting.array) if lane.setting.array else ()
        self.links = [f"{tag}{link.resource}" for link in links]
        self.devices = f"{tag}{COMPUTE}"
        self.table = self._computations() | self._transfers()

    def _computations(self) -> dict[tuple[str, str], list[Rounds]]:
        times, kinds = self.lane.times, (*PHASES, "update")
        known: dict[int, tuple[Rounds, ...]] = {id(None): ((),) * len(kinds)}
        for time, update_s in zip(times, self.lane.updates, strict=True):
            if time is not None and id(time) not in known:
                seconds = {**time.seconds, "update": update_s}
                known[id(time)] = tuple([self._computed(seconds[kind], kind) for kind in kinds])
        each = [known[id(time)] for time in times]
        return {
            ("update" if kind == "update" else "compute", kind): [own[at] for own in each]
            for at, kind in enumerate(kinds)
        }

    def _computed(self, seconds: float, kind: str) -> Rounds:
        return ((Piece(self.own, self.own, self.devices, seconds, kind),),)

    def _transfers(self) -> dict[tuple[str, str], list[Rounds]]:
        inner, outer = self.lane.inner, self.lane.outer
        each = {id(moves): moves for moves in (*inner, *outer)}
        found: dict[tuple[str, str], list[Rounds]] = {}
        for phase in PHASES:
            known = {key: self.sent(moves.phases.get(phase, ())) for key, moves in each.items()}
            found["sum", phase] = [known[id(moves)] for moves in inner]
            found["move", phase] = [known[id(moves)] for moves in outer]
        return found

    def sent(self, moves: Sequence[Move], tail: str = "") -> Rounds:
        """Return the pieces of transfers inside the group, one after another; links of their own have another name."""
        own, links, depth = self.own, self.links, self.lane.depth
        found = []
        for move in moves:
            deeper = move._replace(level=depth + move.level) if depth else move
            found.append((Piece(own, own, links[move.level] + tail, move.seconds, COMMUNICATION, deeper),))
        return tuple(found)

    def of(self, op: Op) -> Rounds:
        """Return the pieces of an op."""
        kind, phase, node, _, _, edge, bucket = op
        return self.together(bucket) if bucket else self.table[kind, phase][node if edge < 0 else edge]

    def together(self, bucket: tuple[int, ...]) -> Rounds:
        """Return the pieces of a bucket of gradients.

        On a machine of independent exchanges (CGDP) each bucket has links of its own, and its latency stalls the devices.
        """
        lane = self.lane
        moves = lane.together(bucket)
        if not lane.setting.machine.independent:
            return self.sent(moves)
        late = lane.latencies(moves)
        stall = self._computed(math.fsum(late), COMMUNICATION) if math.fsum(late) else ()
        rest = zip(moves, late, strict=True)
        moves = Moves([move._replace(seconds=max(0.0, move.seconds - own)) for move, own in rest])
        return (*stall, *self.sent(moves, f" of {lane.graph.layers[bucket[-1]].name}"))


class PartCosts:
    """The pieces of ops on all device groups of a part of a stage, and of what it receives from other stages.

    Attributes:
        lanes: the groups.
        first: the number of the first one over all stages.
    """

    def __init__(self, lanes: Sequence[Lane], crossings: Sequence[Crossing], first: int = 0) -> None:
        """Find the pieces of each group; the uneven splits are outer ones first."""
        self.lanes, self.crossings, self.first = lanes, crossings, first
        self.each = [GroupCosts(lane, first + number) for number, lane in enumerate(lanes)]

    def costed(self, ops: Iterable[Op]) -> list[Costed]:
        """Return ops with their pieces."""
        of = self.each[0].of if len(self.each) == 1 and not self.crossings else self._of
        return [(op, of(op)) for op in ops]

    def _of(self, op: Op) -> Rounds:
        """Return the pieces of an op: of a sum in each group first, then across the uneven splits; of a move the other way."""
        rounds = tuple([one for own in self.each for one in own.of(op)])
        if op.kind == "compute":
            return (tuple([piece for one in rounds for piece in one]),) if rounds else ()
        if op.kind == "move":
            return (
                *self._across(self.crossings, [(own.between[op.edge],) for own in self.crossings], op),
                *rounds,
            )
        if op.kind == "sum":
            inner, nodes = self.crossings[::-1], op.bucket or (op.node,)
            return (
                *rounds,
                *self._across(inner, [[own.inside[node] for node in nodes] for own in inner], op),
            )
        return rounds

    def _across(
        self, crossings: Iterable[Crossing], amounts: Iterable[Sequence[Sequence[Amount]]], op: Op
    ) -> Iterator[Round]:
        """Yield the pieces of an op at some uneven splits; those of a bucket together for each collective."""
        for crossing, nodes in zip(crossings, amounts, strict=True):
            own = [amount for node in nodes for amount in node if amount.phase == op.phase]
            kinds = dict.fromkeys(amount.collective for amount in own)
            together = [[one for one in own if one.collective == kind] for kind in kinds]
            for each in together if op.bucket else ([one] for one in own):
                yield self.crossed(crossing, each)

    def crossed(self, crossing: Crossing, amounts: Sequence[Amount]) -> Round:
        """Return the pieces of amounts that the groups of an uneven split receive together: each waits for all."""
        groups = [tuple([self.first + lane for lane in to.lanes]) for to in crossing.receivers]
        waits = tuple([number for own in groups for number in own])
        found = []
        for at, (own, to) in enumerate(zip(groups, crossing.receivers, strict=True)):
            moves = [move for amount in amounts if (move := crossing.move(amount, at)) is not None]
            if moves:
                move = merged(moves, to)
                found.append(Piece(own, waits, to.name + OUTWARD, move.seconds, COMMUNICATION, move))
        return tuple(found)

    def entered(self, entering: Entering, phase: str, link: str) -> Piece:
        """Return the transfer of what comes from other stages over a link."""
        groups = tuple([number for own in self.each for number in own.own])
        devices = sum(math.prod(lane.setting.array) for lane in self.lanes)
        received, sent = entering.num_bytes, entering.from_stages
        kind = "all_reduce" if phase == PHASE else "send"
        move = Move(phase, BETWEEN_STAGES, entering.link_s, received, devices, received / devices, sent, kind)
        return Piece(groups, groups, link, entering.link_s, COMMUNICATION, move)

    def handed_on(self, entering: Entering, phase: str) -> list[tuple[int, Rounds]]:
        """Return the transfers that hand on what came from other stages, each with the node that it is for."""
        found: list[tuple[int, Rounds]] = []
        for arrival in entering.arrivals:
            inside = self.each[arrival.lane].sent(arrival.moves.phases.get(phase, ()))
            crossed = [self.crossed(self.crossings[at], [one]) for at, one, _ in arrival.crossed]
            found.append((arrival.layer, (*inside, *crossed)))
        return found
