"""A part of a stage: its device groups, the pieces of its ops on all of them, and what it receives from other stages."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from hypar.machine.machine import DeviceGroup
from hypar.schedule.pieces import BETWEEN_STAGES, COMMUNICATION, PHASE, Piece, placed, together

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hypar.schedule.lanes import Lane
    from hypar.schedule.pieces import Crossing, Pieces, Rounds
    from hypar.schedule.record import Op

Costed = tuple["Op", "Rounds"]
"""An op with its pieces."""


class Link(Protocol):
    """What brings tensors to a stage."""

    def seconds(self, collective: str, num_bytes: Any, /) -> Any:
        """Return the time until bytes have been received by a collective."""


class Arrival(NamedTuple):
    """A tensor that a stage receives from another one.

    Attributes:
        layer: the index in the stage of the layer that reads or makes it; by ``paper``, which joins the tensors of an output,
            that of its producer, which may be none of the stage.
        tensor: its index in the network; None by ``paper``.
        num_bytes: the bytes that come from the other stage.
        replicas: the number of parts outside the stages that receive an equal share of the bytes, all at the same time.
        rounds: the transfers that hand it on inside, of lanes numbered in the stage.
    """

    layer: int
    tensor: int | None
    num_bytes: float = 0.0
    replicas: int = 1
    rounds: Rounds = ()


class Entering(NamedTuple):
    """Everything that a stage receives from other stages in one phase of a microbatch.

    Attributes:
        link_s: seconds until it has arrived from the other stages.
        arrivals: the tensors.
        outward: the device group that receives it, if it comes from another one.
    """

    link_s: float = 0.0
    arrivals: tuple[Arrival, ...] = ()
    outward: DeviceGroup | None = None

    @classmethod
    def over(cls, link: Link | None, arrivals: Iterable[Arrival]) -> Self:
        """Return what arrives over a link, all tensors together; what no link brings takes no time there."""
        arrivals = tuple(arrivals)
        num_bytes = math.fsum(own.num_bytes / own.replicas for own in arrivals)
        link_s = float(link.seconds("neighbours", num_bytes)) if link is not None and num_bytes else 0.0
        return cls(link_s, arrivals, link if isinstance(link, DeviceGroup) else None)

    @property
    def seconds(self) -> float:
        """The seconds until it has arrived at the devices that need it, besides what groups of the stage send each other."""
        spent: dict[tuple[int, ...], list[float]] = {(): [0.0]}
        for piece in (piece for own in self.arrivals for pieces in own.rounds for piece in pieces):
            if piece.groups == piece.waits:
                spent.setdefault(piece.groups, []).append(piece.seconds)
        return self.link_s + max(map(math.fsum, spent.values()))

    @property
    def from_stages(self) -> float:
        """The bytes that come from other stages."""
        return math.fsum(arrival.num_bytes for arrival in self.arrivals)


class StageWork(NamedTuple):
    """The devices of a stage, or of a step without stages, with their work for a microbatch in one part of the stage.

    Attributes:
        lanes: groups of identical devices.
        crossings: the transfers at uneven splits between the lanes, outer splits first.
        received: F that other stages send.
        returned: E that they send.
        name: the name of the stage; empty without stages.
    """

    lanes: tuple[Lane, ...]
    crossings: tuple[Crossing, ...] = ()
    received: Entering = Entering()
    returned: Entering = Entering()
    name: str = ""

    @property
    def layers(self) -> int:
        """The number of its layers."""
        return len(self.lanes[0].graph.layers)

    def costed(self, ops: Iterable[Op]) -> list[Costed]:
        """Return ops with their pieces."""
        of = self.lanes[0].pieces if len(self.lanes) == 1 and not self.crossings else self._of
        return [(op, of(op)) for op in ops]

    def _of(self, op: Op) -> Rounds:
        """Return the pieces of an op: of a sum in each group first, then across the uneven splits; of a move the other way."""
        rounds = [pieces for lane in self.lanes for pieces in lane.pieces(op)]
        if op.kind == "compute" and rounds:
            return (tuple([piece for pieces in rounds for piece in pieces]),)
        if op.kind == "move":
            rounds = [*self._across(self.crossings, op), *rounds]
        elif op.kind == "sum":
            rounds += self._across(self.crossings[::-1], op)
        return tuple(rounds)

    def _across(self, crossings: Iterable[Crossing], op: Op) -> Iterator[Pieces]:
        """Yield the rounds of an op at some uneven splits; those of a bucket together for each collective."""
        for inside, between in crossings:
            every = (inside[node] for node in op.bucket or (op.node,)) if op.edge < 0 else (between[op.edge],)
            own = [pieces for rounds in every for pieces in rounds if pieces[0].phase == op.phase]
            yield from self.placed(_together(own) if op.bucket else own)

    def placed(self, rounds: Iterable[Pieces]) -> Rounds:
        """Return rounds of its lanes among those of all stages."""
        return tuple([placed(pieces, self.lanes[0].number, self.name) for pieces in rounds])

    def entered(self, entering: Entering, phase: str) -> Piece:
        """Return the transfer of what comes from other stages, over a link yet without a name."""
        groups, received = tuple([lane.number for lane in self.lanes]), entering.from_stages
        each = received / sum(lane.devices for lane in self.lanes)
        collective, held = "all_reduce" if phase == PHASE else "send", (each,) * len(groups)
        own = (groups, groups, "", entering.link_s, COMMUNICATION, phase, collective, BETWEEN_STAGES)
        return Piece(*own, received, received, held, entering.outward)


def _together(rounds: Sequence[Pieces]) -> Iterator[Pieces]:
    """Yield rounds of one split as one for each collective."""
    for kind in dict.fromkeys(pieces[0].collective for pieces in rounds):
        yield together(piece for pieces in rounds for piece in pieces if piece.collective == kind)
