"""The tensors that a stage receives from other stages: F as its layers read it, E as its outputs are held."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from hypar.schedule.moves import NO_MOVES

if TYPE_CHECKING:
    from hypar.schedule.moves import Link, Move, Moves
    from hypar.sharding.amounts.above import Amount


class Links(NamedTuple):
    """The links that carry tensors to a stage; None if no other stage is there.

    Attributes:
        forward: the link from the stage before.
        backward: the link from the stage behind.
    """

    forward: Link | None = None
    backward: Link | None = None


class Arrival(NamedTuple):
    """A tensor that a stage receives from another one.

    Attributes:
        layer: the index in the stage of the layer that reads or makes it; by ``paper``, which joins the tensors of an output,
            that of its producer, which may be none of the stage.
        tensor: its index in the network; None by ``paper``.
        num_bytes: the bytes that come from the other stage.
        moves: the transfers that hand it on inside, and those outside the stages.
        replicas: the number of parts outside the stages that receive an equal share of the bytes, all at the same time.
        lane: the index in the stage of the lane to which the transfers inside belong.
        crossed: what the device groups of an uneven split of the stage receive from each other: the index of the
            split, the amounts, and their bytes.
    """

    layer: int
    tensor: int | None
    num_bytes: float
    moves: Moves = NO_MOVES
    replicas: int = 1
    lane: int = 0
    crossed: tuple[tuple[int, Amount, float], ...] = ()


class Entering(NamedTuple):
    """Everything that a stage receives from other stages in one phase of a microbatch.

    Attributes:
        link_s: seconds until it has arrived from the other stages.
        arrivals: the tensors.
    """

    link_s: float
    arrivals: tuple[Arrival, ...]

    @property
    def seconds(self) -> float:
        """The seconds until it has arrived at the devices that need it."""
        lanes: dict[int, list[float]] = {0: []}
        for arrival in self.arrivals:
            lanes.setdefault(arrival.lane, []).extend(move.seconds for move in arrival.moves)
        return self.link_s + max(map(math.fsum, lanes.values()))

    @property
    def from_stages(self) -> float:
        """The bytes that come from other stages."""
        return math.fsum(arrival.num_bytes for arrival in self.arrivals)

    @property
    def moves(self) -> tuple[Move, ...]:
        """The transfers that hand tensors on inside."""
        return tuple(move for arrival in self.arrivals for move in arrival.moves)

    @property
    def num_bytes(self) -> float:
        """The bytes that all devices of the stage receive."""
        crossed = (num_bytes for arrival in self.arrivals for _, _, num_bytes in arrival.crossed)
        return math.fsum((self.from_stages, *(move.total_bytes for move in self.moves), *crossed))


def seconds_of(link: Link | None, num_bytes: float) -> float:
    """Return the seconds until a stage has received a number of bytes from others."""
    return float(link.seconds("neighbours", num_bytes)) if link is not None and num_bytes else 0.0
