"""What a stage receives from other stages: from them, over its uneven splits, and inside groups of identical devices.

By ``paper`` a tensor arrives once from the next stage, in as many copies as there are devices that need it, and one that
only passes arrives too. By the other conventions each layer gets what it reads, an element once from the stage that makes it,
and the levels inside hand it on: a tensor goes down the tree of the stage that receives it. Outside the stages the layer at its
other end has shares and choices of its own; inside them no device has anything of the tensor.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from hypar.planning.nodes.leaf import Leaf
from hypar.planning.stages.places import places_for
from hypar.planning.uneven.tree import Branching
from hypar.schedule.entering import Arrival, Entering, seconds_of
from hypar.schedule.moves import timed
from hypar.sharding.amounts.counted import STAGE, received_between
from hypar.sharding.amounts.products import OUTERMOST, below, received
from hypar.sharding.conventions import PAPER
from hypar.sharding.placement import WHOLE, dim_of, grid
from hypar.sharding.uneven.entered import crossed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hypar.machine.machine import Machine
    from hypar.network.nodes import PlanGraph
    from hypar.ops.nest import Nest
    from hypar.planning.stages.span import Cuts, Outer, Site
    from hypar.planning.uneven.tree import Branch
    from hypar.schedule.entering import Link
    from hypar.sharding.amounts.between import Between
    from hypar.sharding.amounts.products import Products
    from hypar.sharding.amounts.transfers import Network, Part


class Beside(NamedTuple):
    """The links of several groups of identical devices that receive beside each other.

    Attributes:
        links: the link of each group, with the fraction of all bytes that it carries.
    """

    links: tuple[tuple[Link, float], ...]

    def seconds(self, collective: str, num_bytes: Any) -> Any:
        """Return the time until all groups have received their part of some bytes."""
        each = [link.seconds(collective, num_bytes * fraction) for link, fraction in self.links]
        found = each[0]
        for own in each[1:]:
            found = np.maximum(found, own)
        return found


def beside(groups: Iterable[tuple[Machine, tuple[int, ...]]], stages: int) -> Beside:
    """Return the links between stages that have some groups of identical devices each, all devices receiving alike."""
    groups = [*groups]
    devices = sum(math.prod(array) for _, array in groups)
    return Beside(
        tuple(
            (
                machine.stage_link(array, places_for(machine, array, stages)),
                math.prod(array[machine.outside :]) / devices,
            )
            for machine, array in groups
        )
    )


def link_of(branch: Branch, stages: int) -> Beside:
    """Return the links between stages below a node of their tree."""
    settings = [leaf.lane.setting for leaf in branch.leaves()]
    return beside(((setting.machine, setting.array) for setting in settings), stages)


def entering(
    network: tuple[PlanGraph, Network],
    span: tuple[int, int],
    cuts: Cuts,
    site: Site,
    outer: Callable[[int], Outer | None],
) -> tuple[Entering, Entering]:
    """Return what a stage receives of a microbatch's F, and of its E.

    Args:
        network: the layers of the network for a microbatch, and what moves between them.
        span: the first layer of the stage, and the first one behind it.
        cuts: its cuts.
        site: its devices.
        outer: returns the place of a layer in another stage; None if it is taken to be cut in samples.
    """
    (layers, moved), tree, setting = network, cast("Branch", cuts.node), cuts.lane.setting
    arriving = {phase: _Arriving(site, tree, phase, setting.element_bytes) for phase in site.links._fields}
    if setting.convention == PAPER:
        replicas = 1 if isinstance(tree, Branching) else math.prod(setting.array[: site.outside])
        elements = by_paper(layers, span, lambda layer, tensor: copies(tree, layer - span[0], tensor))
        for own, received in zip(arriving.values(), elements, strict=True):
            for maker, whole in received.items():
                own.from_stage(tree, Arrival(maker, None, setting.element_bytes * whole, replicas=replicas))
        return arriving["forward"].entering(), arriving["backward"].entering()
    for index, tensor in enumerate(layers.tensors):
        reads, makes = (span[0] <= place < span[1] for place in (tensor.consumer, tensor.producer))
        if reads != makes:
            ends = (tensor.producer, tensor.consumer)
            other = outer(ends[not reads]) if site.outside else None
            between, reader = moved.between[index], layers.layers[tensor.consumer].nest
            for part in moved.parts[index]:
                if part.forward is reads:
                    way = _Way(index, part, between, reader, reads, ends[reads] - span[0], other)
                    arriving[part.phase].add(way)
    return arriving["forward"].entering(), arriving["backward"].entering()


def by_paper(
    graph: PlanGraph, span: tuple[int, int], copies: Callable[[int, str], float]
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the elements of F and of E that arrive of each producer's output, each once and of the next stage.

    A stage sends what its neighbour needs, in as many copies as there are devices that need it, or passes on.

    Args:
        graph: the layers of the network for a microbatch.
        span: the first layer of the stage, and the first one behind it.
        copies: returns the number of devices that need each element of a layer's input or output.
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
    return forward, backward


def copies(branch: Branch, layer: int, tensor: str) -> float:
    """Return the number of devices below a node that need each element of a layer's input or output."""
    graph = branch.lane.graph if isinstance(branch, Leaf) else branch.graph
    carried = graph.layers[layer].nest.names[tensor]
    if isinstance(branch, Leaf):
        return math.prod(
            choice.devices(ways) / math.prod(degree for dim, degree in choice.degrees if dim in carried)
            for choice, ways in zip(branch.lane.choices[layer], branch.lane.setting.array, strict=True)
        )
    offer = branch.offers[layer]
    cut = dim_of(offer.choice) in carried
    return math.fsum(
        (share if cut else 1.0) * copies(below, layer, tensor)
        for share, below in zip(offer.shares, branch.below, strict=True)
        if below is not None
    )


class _Way(NamedTuple):
    """A transfer of a tensor to a stage.

    Attributes:
        tensor: the index of the tensor in the network.
        part: the transfer.
        between: the tensor's dims at both ends.
        reader: the layer that reads it, whole.
        reads: whether the stage reads it; otherwise the stage makes it.
        layer: the index of its layer in the stage.
        other: the layer at the other end; None if it is taken to be cut in samples.
    """

    tensor: int
    part: Part
    between: Between
    reader: Nest
    reads: bool
    layer: int
    other: Outer | None

    def reader_at(self, own: Branch, other: Branch | None) -> Nest:
        """Return the layer that reads it, with the sizes at a node of the tree."""
        if self.reads:
            return own.graph.layers[self.layer].nest
        if other is None or self.other is None:
            return self.reader
        return other.graph.layers[self.other.layer].nest


class _Arriving:
    """Everything that arrives in one phase.

    Attributes:
        arrivals: the tensors.
        seams: the bytes that each node at the place of the stages receives from other stages, by the node's name.
    """

    def __init__(self, site: Site, tree: Branch, phase: str, element_bytes: int) -> None:
        self.site, self.tree, self.phase, self.element_bytes = site, tree, phase, element_bytes
        self.arrivals: list[Arrival] = []
        self.seams: dict[str, tuple[Branch, list[float]]] = {}
        self.crossing, self.lane = 0, 0

    def entering(self) -> Entering:
        """Return all of it."""
        own: Link | None = getattr(self.site.links, self.phase)
        branches = self.site.outside and isinstance(self.tree, Branching) and own is not None
        times = [
            seconds_of(link_of(node, self.site.stages) if branches else own, math.fsum(num_bytes))
            for node, num_bytes in self.seams.values()
        ]
        return Entering(max(times, default=0.0), tuple(self.arrivals))

    def add(self, way: _Way) -> None:
        """Add a transfer."""
        self.crossing, self.lane = 0, 0
        other = None if way.other is None else cast("Branch", way.other.cuts.node)
        self._node(way, self.tree, other, OUTERMOST)

    def from_stage(self, node: Branch, arrival: Arrival) -> None:
        """Add what a node at the place of the stages receives from another stage, and what hands it on."""
        if arrival.num_bytes:
            received = self.seams.setdefault(node.name, (node, []))[1]
            received.append(arrival.num_bytes / arrival.replicas)
        if arrival.num_bytes or arrival.moves:
            self.arrivals.append(arrival)

    def _node(self, way: _Way, own: Branch, other: Branch | None, products: Products) -> None:
        if isinstance(own, Leaf):
            self._leaf(way, own, other if isinstance(other, Leaf) else None, products)
            return
        apart, theirs = own.depth >= self.site.outside, (grid({"batch": len(own.below)}), own.shares)
        if own.depth == self.site.outside:
            num_bytes = self.element_bytes * received(way.part, products, STAGE)
            self.from_stage(own, Arrival(way.layer, way.tensor, num_bytes))
            products = below(products, STAGE)
        beyond = None if apart or isinstance(other, Leaf) else other
        if apart:
            theirs = (WHOLE, own.shares)
        elif beyond is not None and way.other is not None:
            theirs = beyond.offers[way.other.layer][1:3]
        mine = own.offers[way.layer][1:3]
        made, read = (theirs, mine) if way.reads else (mine, theirs)
        (amount,), each = crossed(
            way.reader_at(own, beyond),
            way.between,
            (way.part,),
            products,
            made,
            read,
        )
        if any(amount.elements):
            if apart and way.part.manner != "sums":
                amount = amount._replace(collective="all_gather")
            num_bytes = self.element_bytes * math.fsum(map(float, amount.elements))
            self.arrivals.append(
                Arrival(way.layer, way.tensor, 0.0, crossed=((self.crossing, amount, num_bytes),))
            )
        self.crossing += 1
        for group, branch in enumerate(own.below):
            if branch is not None:
                self._node(way, branch, None if beyond is None else beyond.below[group], each[group])

    def _leaf(self, way: _Way, own: Leaf, other: Leaf | None, products: Products) -> None:
        setting, chosen = own.lane.setting, own.lane.choices[way.layer]
        out = max(0, self.site.outside - own.lane.depth)
        theirs = tuple(grid({"batch": ways}) for ways in setting.array)
        if other is not None and way.other is not None:
            theirs = other.lane.choices[way.other.layer]
        theirs = (*theirs[:out], *(WHOLE,) * (len(chosen) - out))
        pair, reader = (theirs, chosen) if way.reads else (chosen, theirs), way.reader_at(own, other)
        seam, *moves = sorted(
            received_between(reader, way.between, (way.part,), setting.array, pair, products, out)
        )
        num_bytes, handed = self.element_bytes * seam.elements, timed(setting, tuple(moves))
        self.from_stage(own, Arrival(way.layer, way.tensor, num_bytes, handed, seam.receivers, self.lane))
        self.lane += 1
