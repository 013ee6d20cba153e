"""What a stage on several device groups receives from other stages: over its uneven splits, from them, and inside groups.

A tensor goes down the tree of the stage that receives it. Outside the stages the layer at its other end has shares and
choices of its own; inside them no device has anything of the tensor.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from hypar.planning.nodes.leaf import Leaf
from hypar.planning.stages.places import places_for
from hypar.planning.uneven.planner import as_branching
from hypar.schedule.entering import Arrival, Entering, by_paper, seconds_of
from hypar.schedule.moves import timed
from hypar.sharding.amounts.above import between_of
from hypar.sharding.amounts.counted import APART, elements_apart, handed_on, received_apart, received_between
from hypar.sharding.amounts.parts import parts_of
from hypar.sharding.amounts.products import OUTERMOST
from hypar.sharding.conventions import PAPER
from hypar.sharding.placement import WHOLE, divisor, grid
from hypar.sharding.transfers import dim_of
from hypar.sharding.uneven.entered import crossed
from hypar.sharding.uneven.fractions import Offered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hypar.machine.machine import Machine
    from hypar.machine.setting import Setting
    from hypar.network.nodes import PlanGraph
    from hypar.ops.nest import Nest
    from hypar.planning.stages.span import Cuts, Outer, Site
    from hypar.planning.uneven.tree import Branch, Branching
    from hypar.schedule.entering import Link
    from hypar.sharding.amounts.between import Between
    from hypar.sharding.amounts.flows import Flows
    from hypar.sharding.amounts.parts import Part
    from hypar.sharding.amounts.products import Products
    from hypar.sharding.placement import Choice


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


def entering_groups(
    network: tuple[PlanGraph, Flows],
    span: tuple[int, int],
    cuts: Cuts,
    setting: Setting,
    site: Site,
    outer: Callable[[int], Outer | None],
) -> tuple[Entering, Entering]:
    """Return what a stage on several groups receives of a microbatch's F, and of its E.

    Args:
        network: the layers of the network for a microbatch, and what moves between them.
        span: the first layer of the stage, and the first one behind it.
        cuts: its cuts.
        setting: the setting of its first group.
        site: its devices.
        outer: returns the place of a layer in another stage; None if it is taken to be cut in samples.
    """
    tree, size = as_branching(cuts.node), setting.element_bytes
    (layers, flows), outside = network, site.outside
    if setting.convention == PAPER:
        start, found = span[0], []
        for arrivals, link in zip(
            by_paper(layers, span, lambda layer, tensor: copies(tree, layer - start, tensor), size),
            site.links,
            strict=True,
        ):
            own = link_of(tree, site.stages) if outside and link is not None else link
            found.append(Entering(seconds_of(own, math.fsum(one.num_bytes for one in arrivals)), arrivals))
        return found[0], found[1]
    arriving = {phase: _Arriving(site, tree, size) for phase in site.links._fields}
    for index, tensor in enumerate(layers.tensors):
        reads, makes = (span[0] <= place < span[1] for place in (tensor.consumer, tensor.producer))
        if reads != makes:
            ends = (tensor.producer, tensor.consumer)
            other = outer(ends[not reads]) if outside else None
            flow = flows.tensors[index]
            between = between_of(layers, tensor, flow)
            reader = layers.layers[tensor.consumer].nest
            for part in parts_of(flow, between):
                if part.forward is reads:
                    way = _Way(index, part, between, reader, reads, ends[reads] - span[0], other)
                    arriving[part.phase].add(way)
    return arriving["forward"].entering("forward"), arriving["backward"].entering("backward")


def copies(branch: Branch, layer: int, tensor: str) -> float:
    """Return the number of devices below a node that need each element of a layer's input or output."""
    if isinstance(branch, Leaf):
        lane = branch.lane
        nest, pairs = (
            lane.graph.layers[layer].nest,
            zip(lane.choices[layer], lane.setting.array, strict=True),
        )
        return math.prod(choice.devices(ways) / divisor(nest, choice, tensor) for choice, ways in pairs)
    offer, carried = branch.offers[layer], branch.graph.layers[layer].nest.names[tensor]
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
        seams: the bytes that each node at the place of the stages receives from other stages, by the node's number.
    """

    def __init__(self, site: Site, tree: Branching, element_bytes: int) -> None:
        self.site, self.tree, self.outside, self.element_bytes = site, tree, site.outside, element_bytes
        self.arrivals: list[Arrival] = []
        self.seams: dict[str, tuple[Branch, float]] = {}
        self.crossing, self.lane = 0, 0

    def entering(self, phase: str) -> Entering:
        """Return all of it."""
        times = []
        for node, num_bytes in self.seams.values():
            own = getattr(self.site.links, phase)
            link = link_of(node, self.site.stages) if self.outside else own
            times.append(seconds_of(link, num_bytes))
        return Entering(max(times, default=0.0), tuple(self.arrivals))

    def add(self, way: _Way) -> None:
        """Add a transfer."""
        self.crossing, self.lane = 0, 0
        other = None if way.other is None else cast("Branch", way.other.cuts.node)
        self._node(way, self.tree, other, OUTERMOST, apart=False)

    def _node(self, way: _Way, own: Branch, other: Branch | None, products: Products, *, apart: bool) -> None:
        if isinstance(own, Leaf):
            self._leaf(way, own, other if isinstance(other, Leaf) else None, products, apart=apart)
            return
        if not apart and own.depth == self.outside:
            self._from_stage(way, own, elements_apart(way.part, products), 1)
            products, apart, other = products._replace(**APART), True, None  # type: ignore[arg-type]
        beyond = other if way.other is not None and not isinstance(other, Leaf) else None
        theirs = _offered(grid({"batch": len(own.below)}), own.shares)
        if apart:
            theirs = _offered(WHOLE, own.shares)
        elif beyond is not None and way.other is not None:
            theirs = _offered(*beyond.offers[way.other.layer][1:3])
        mine = _offered(*own.offers[way.layer][1:3])
        made, read = (theirs, mine) if way.reads else (mine, theirs)
        amount, below = crossed(way.reader_at(own, beyond), way.between, way.part, products, made, read)
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
                across = None if beyond is None else beyond.below[group]
                self._node(way, branch, across, below[group], apart=apart)

    def _leaf(self, way: _Way, own: Leaf, other: Leaf | None, products: Products, *, apart: bool) -> None:
        setting, chosen = own.lane.setting, own.lane.choices[way.layer]
        reader = way.reader_at(own, other)
        if apart:
            inside = (WHOLE,) * len(chosen)
            pair = (inside, chosen) if way.reads else (chosen, inside)
            moves = handed_on(
                way.part, received_between(reader, way.between, (way.part,), setting.array, pair, products), 0
            )
        else:
            out = self.outside - own.lane.depth
            others = tuple(grid({"batch": ways}) for ways in setting.array[:out])
            if other is not None and way.other is not None:
                others = other.lane.choices[way.other.layer][:out]
            seam, moves = received_apart(
                reader, way.between, way.part, setting.array, chosen, others, products
            )
            self._from_stage(way, own, seam.elements, seam.receivers)
        if moves:
            handed = timed(setting, moves)
            self.arrivals.append(Arrival(way.layer, way.tensor, 0.0, handed, lane=self.lane))
        self.lane += 1

    def _from_stage(self, way: _Way, node: Branch, elements: float, replicas: int) -> None:
        """Add what a node at the place of the stages receives from another stage."""
        num_bytes = self.element_bytes * elements
        if num_bytes:
            before = self.seams.get(node.name, (node, 0.0))[1]
            self.seams[node.name] = (node, before + num_bytes / replicas)
            self.arrivals.append(Arrival(way.layer, way.tensor, num_bytes, replicas=replicas))


def _offered(choice: Choice, shares: tuple[float, ...]) -> Offered:
    return Offered((choice,), np.array([shares], dtype=np.float64))
