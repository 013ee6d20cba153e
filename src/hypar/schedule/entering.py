"""The tensors that a stage receives from other stages: F as its layers read it, E as its outputs are held.

By ``paper`` a tensor arrives once from the next stage, in as many copies as there are devices that need it, and one that
only passes arrives too. By the other conventions each layer gets what it reads, an element once from the stage that makes it,
and the levels inside hand it on.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hypar.schedule.moves import NO_MOVES, timed
from hypar.sharding.amounts.above import between_of
from hypar.sharding.amounts.counted import received_apart
from hypar.sharding.amounts.parts import parts_of
from hypar.sharding.conventions import PAPER
from hypar.sharding.placement import divisor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.machine.setting import Setting
    from hypar.network.contraction import ContractedGraph
    from hypar.schedule.moves import Move, Moves
    from hypar.sharding.amounts.counted import Received
    from hypar.sharding.amounts.flows import Flows
    from hypar.sharding.amounts.parts import Part
    from hypar.sharding.placement import Options


class Link(Protocol):
    """A link that carries tensors between stages: of a machine's level, or of a device group to the others."""

    def seconds(self, collective: str, num_bytes: Any, /) -> Any:
        """Return the time until bytes have been received by a collective."""


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
        moves: the transfers that hand it on inside.
    """

    layer: int
    tensor: int | None
    num_bytes: float
    moves: Moves = NO_MOVES


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
        return self.link_s + math.fsum(move.seconds for move in self.moves)

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
        return math.fsum((self.from_stages, *(move.total_bytes for move in self.moves)))


def entering(
    network: tuple[ContractedGraph, Flows],
    span: tuple[int, int],
    choices: Sequence[Options],
    setting: Setting,
    links: Links,
) -> tuple[Entering, Entering]:
    """Return what a stage receives of a microbatch's F, and of its E.

    Args:
        network: the layers of the network for a microbatch, and what moves between them.
        span: the first layer of the stage, and the first one behind it.
        choices: for each layer of the stage a choice at each level.
        setting: the setting of the stage.
        links: the links that carry tensors from other stages.
    """
    if setting.convention == PAPER:
        forward, backward = _by_paper(network[0], span, choices, setting)
    else:
        forward, backward = _counted(network, span, choices, setting)
    return _timed(forward, links.forward), _timed(backward, links.backward)


def seconds_of(link: Link | None, num_bytes: float) -> float:
    """Return the seconds until a stage has received a number of bytes from others."""
    return float(link.seconds("neighbours", num_bytes)) if link is not None and num_bytes else 0.0


def _timed(arrivals: tuple[Arrival, ...], link: Link | None) -> Entering:
    return Entering(seconds_of(link, math.fsum(one.num_bytes for one in arrivals)), arrivals)


def _by_paper(
    graph: ContractedGraph, span: tuple[int, int], choices: Sequence[Options], setting: Setting
) -> tuple[tuple[Arrival, ...], tuple[Arrival, ...]]:
    """Return what arrives if a stage sends what its neighbours need or pass on, each tensor once."""
    start, end = span
    forward: dict[int, float] = {}
    backward: dict[int, float] = {}

    def copies(layer: int, tensor: str) -> float:
        """Return the number of devices that need each element of a layer's input or output."""
        einsum, pairs = graph.layers[layer].einsum, zip(choices[layer - start], setting.array, strict=True)
        return math.prod(choice.devices(ways) / divisor(einsum, choice, tensor) for choice, ways in pairs)

    for tensor in graph.tensors:
        maker, reader = tensor.producer, tensor.consumer
        if maker < start <= reader:
            needed = copies(reader, "input") if reader < end else 1.0
            forward[maker] = max(forward.get(maker, 0.0), tensor.elements * needed)
        if maker < end <= reader:
            needed = copies(maker, "output") if maker >= start else 1.0
            backward[maker] = max(backward.get(maker, 0.0), tensor.elements * needed)
    return _whole(forward, setting.element_bytes), _whole(backward, setting.element_bytes)


def _whole(elements: dict[int, float], element_bytes: int) -> tuple[Arrival, ...]:
    """Return the arrivals of outputs, by their layers."""
    return tuple(Arrival(maker, None, element_bytes * whole) for maker, whole in elements.items())


def _counted(
    network: tuple[ContractedGraph, Flows],
    span: tuple[int, int],
    choices: Sequence[Options],
    setting: Setting,
) -> tuple[tuple[Arrival, ...], tuple[Arrival, ...]]:
    """Return what arrives by the counts of the algebra; sums are added up before they leave a stage."""
    start, end = span
    forward: list[Arrival] = []
    backward: list[Arrival] = []
    for index, tensor in enumerate(network[0].tensors):
        reads, makes = (start <= place < end for place in (tensor.consumer, tensor.producer))
        if reads != makes:
            own = (tensor.consumer if reads else tensor.producer) - start
            for part, elements, handed in _received(network, index, choices[own], setting, reads=reads):
                arrival = Arrival(own, index, setting.element_bytes * elements, timed(setting, handed))
                (forward if part.phase == "forward" else backward).append(arrival)
    return tuple(forward), tuple(backward)


def _received(
    network: tuple[ContractedGraph, Flows], index: int, own: Options, setting: Setting, *, reads: bool
) -> Iterator[tuple[Part, float, tuple[Received, ...]]]:
    """Yield the transfers of a tensor to the stage that reads it, or that makes it, with the elements from outside."""
    graph, flow = network[0], network[1].tensors[index]
    tensor = graph.tensors[index]
    between = between_of(graph, tensor, flow)
    reader = graph.ends(tensor)[1].einsum
    for part in parts_of(flow, between):
        if part.forward is reads:
            elements, handed = received_apart(reader, between, part, setting.array, own)
            if elements or handed:
                yield part, elements, handed
