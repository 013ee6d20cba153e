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
    from collections.abc import Callable, Iterator, Sequence

    from hypar.machine.setting import Setting
    from hypar.network.nodes import PlanGraph
    from hypar.schedule.moves import Move, Moves
    from hypar.sharding.amounts.counted import Received
    from hypar.sharding.amounts.flows import Flows
    from hypar.sharding.placement import Options
    from hypar.sharding.uneven.entered import Amount


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


def entering(
    network: tuple[PlanGraph, Flows],
    span: tuple[int, int],
    choices: Sequence[Options],
    setting: Setting,
    links: Links,
    outer: Callable[[int], Options] = lambda _: (),
) -> tuple[Entering, Entering]:
    """Return what a stage receives of a microbatch's F, and of its E.

    Args:
        network: the layers of the network for a microbatch, and what moves between them.
        span: the first layer of the stage, and the first one behind it.
        choices: for each layer of the stage a choice at each level.
        setting: the setting of the stage.
        links: the links that carry tensors from other stages.
        outer: returns the choices of a layer of another stage at the levels outside the stages.
    """
    if setting.convention == PAPER:
        array = setting.array

        def copies(layer: int, tensor: str) -> float:
            """Return the number of devices that need each element of a layer's input or output."""
            nest, pairs = network[0].layers[layer].nest, zip(choices[layer - span[0]], array, strict=True)
            return math.prod(choice.devices(ways) / divisor(nest, choice, tensor) for choice, ways in pairs)

        replicas = math.prod(array[: setting.machine.outside])
        forward, backward = by_paper(network[0], span, copies, setting.element_bytes, replicas)
    else:
        forward, backward = _counted(network, span, choices, setting, outer)
    return _timed(forward, links.forward), _timed(backward, links.backward)


def seconds_of(link: Link | None, num_bytes: float) -> float:
    """Return the seconds until a stage has received a number of bytes from others."""
    return float(link.seconds("neighbours", num_bytes)) if link is not None and num_bytes else 0.0


def _timed(arrivals: tuple[Arrival, ...], link: Link | None) -> Entering:
    return Entering(seconds_of(link, math.fsum(one.num_bytes / one.replicas for one in arrivals)), arrivals)


def by_paper(
    graph: PlanGraph,
    span: tuple[int, int],
    copies: Callable[[int, str], float],
    element_bytes: int,
    replicas: int = 1,
) -> tuple[tuple[Arrival, ...], tuple[Arrival, ...]]:
    """Return what arrives if a stage sends what its neighbours need or pass on, each tensor once.

    Args:
        graph: the layers of the network for a microbatch.
        span: the first layer of the stage, and the first one behind it.
        copies: returns the number of devices that need each element of a layer's input or output.
        element_bytes: bytes of an element.
        replicas: the number of parts outside the stages.
    """
    start, end = span
    forward: dict[int, float] = {}
    backward: dict[int, float] = {}

    for tensor in graph.tensors:
        maker, reader = tensor.producer, tensor.consumer
        if maker < start <= reader:
            needed = copies(reader, "input") if reader < end else 1.0
            forward[maker] = max(forward.get(maker, 0.0), tensor.elements * needed)
        if maker < end <= reader:
            needed = copies(maker, "output") if maker >= start else 1.0
            backward[maker] = max(backward.get(maker, 0.0), tensor.elements * needed)
    return tuple(
        tuple(
            Arrival(maker, None, element_bytes * whole, replicas=replicas)
            for maker, whole in elements.items()
        )
        for elements in (forward, backward)
    )  # type: ignore[return-value]


def _counted(
    network: tuple[PlanGraph, Flows],
    span: tuple[int, int],
    choices: Sequence[Options],
    setting: Setting,
    outer: Callable[[int], Options],
) -> tuple[tuple[Arrival, ...], tuple[Arrival, ...]]:
    """Return what arrives by the counts of the algebra; sums are added up before they leave a stage."""
    start, end = span
    forward: list[Arrival] = []
    backward: list[Arrival] = []
    for index, tensor in enumerate(network[0].tensors):
        reads, makes = (start <= place < end for place in (tensor.consumer, tensor.producer))
        if reads != makes:
            ends = (tensor.producer, tensor.consumer)
            own, others = ends[reads] - start, outer(ends[not reads])
            for seam, handed in _received(network, index, choices[own], others, setting, reads=reads):
                num_bytes = setting.element_bytes * seam.elements
                arrival = Arrival(own, index, num_bytes, timed(setting, handed), seam.receivers)
                (forward if seam.phase == "forward" else backward).append(arrival)
    return tuple(forward), tuple(backward)


def _received(
    network: tuple[PlanGraph, Flows],
    index: int,
    own: Options,
    others: Options,
    setting: Setting,
    *,
    reads: bool,
) -> Iterator[tuple[Received, tuple[Received, ...]]]:
    """Yield the transfers of a tensor to the stage that reads it, or that makes it: from the other stage, and the others."""
    graph, flow = network[0], network[1].tensors[index]
    tensor = graph.tensors[index]
    between = between_of(graph, tensor, flow)
    reader = graph.ends(tensor)[1].nest
    for part in parts_of(flow, between):
        if part.forward is reads:
            seam, handed = received_apart(reader, between, part, setting.array, own, others)
            if seam.elements or handed:
                yield seam, handed
