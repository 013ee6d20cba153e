"""What a stage receives from other stages: from them, over its uneven splits, and inside groups of identical devices.

By ``paper`` a tensor arrives once from the next stage, in as many copies as there are devices that need it, and one that
only passes arrives too. By the other conventions each layer gets what it reads, an element once from the stage that makes it,
and the levels inside hand it on: a tensor goes down the tree of the stage that receives it. Outside the stages the layer at its
other end has shares and choices of its own; inside them no device has anything of the tensor.
"""

from __future__ import annotations

import math
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from hypar.planning.levels import Leaf
from hypar.planning.stages.places import places_for
from hypar.schedule.costed import Arrival, Entering
from hypar.schedule.pieces import crossing, placed, priced
from hypar.sharding.amounts.above import crossed
from hypar.sharding.amounts.counted import STAGE, received_between
from hypar.sharding.amounts.factors import Above
from hypar.sharding.amounts.transfers import mapped, received
from hypar.sharding.conventions import PAPER
from hypar.sharding.placement import WHOLE, dim_of, grid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from hypar.machine.machine import Machine
    from hypar.network.nodes import PlanGraph
    from hypar.planning.stages.span import Cuts, Outer, Site
    from hypar.planning.uneven.tree import Branch
    from hypar.schedule.costed import Link
    from hypar.sharding.amounts.transfers import Between, Network, Part


Arriving = list[tuple["Branch", Arrival]]
"""What arrives at the nodes of a stage."""


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
    arriving: dict[str, Arriving] = {phase: [] for phase in site.links._fields}
    if setting.convention == PAPER:
        replicas = 1 if not isinstance(tree, Leaf) else math.prod(setting.array[: site.outside])
        for own, received in zip(arriving.values(), _by_paper(layers, span, tree), strict=True):
            for maker, elements in received.items():
                num_bytes = setting.element_bytes * elements
                own.append((tree, Arrival(maker, None, num_bytes, replicas=replicas)))
        return _entering(site, tree, "forward", arriving), _entering(site, tree, "backward", arriving)
    for index, tensor in enumerate(layers.tensors):
        reads, makes = (span[0] <= place < span[1] for place in (tensor.consumer, tensor.producer))
        if reads != makes:
            ends = (tensor.producer, tensor.consumer)
            other = outer(ends[not reads]) if site.outside else None
            node = None if other is None else cast("Branch", other.cuts.node)
            between, above = moved.between[index], Above(image=moved.images[index])
            for part in moved.parts[index]:
                if part.forward is reads:
                    layers_at = (ends[reads] - span[0], 0 if other is None else other.layer)
                    way = _Way(index, part, between, *layers_at, site.outside)
                    arriving[part.phase] += way.arrivals(tree, node, above)
    return _entering(site, tree, "forward", arriving), _entering(site, tree, "backward", arriving)


def _entering(site: Site, tree: Branch, phase: str, arriving: Mapping[str, Arriving]) -> Entering:
    """Return what arrives in one phase; the nodes at the place of the stages receive beside each other."""
    link: Link | None = getattr(site.links, phase)
    whole = Entering.over(link, (own for _, own in arriving[phase] if own.num_bytes or own.rounds))
    if not site.outside or isinstance(tree, Leaf) or link is None:
        return whole
    seams: dict[str, tuple[Branch, list[Arrival]]] = {}
    for node, arrival in arriving[phase]:
        if arrival.num_bytes:
            seams.setdefault(node.name, (node, []))[1].append(arrival)
    times = [0.0]
    for node, own in seams.values():
        settings = (leaf.lane.setting for leaf in node.leaves())
        groups = ((setting.machine, setting.array) for setting in settings)
        times.append(Entering.over(beside(groups, site.stages), own).link_s)
    return whole._replace(link_s=max(times))


def _by_paper(
    graph: PlanGraph, span: tuple[int, int], tree: Branch
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the elements of F and of E that arrive of each producer's output, each once and of the next stage.

    A stage sends what its neighbour needs, in as many copies as there are devices that need it, or passes on.
    """
    found: tuple[dict[int, float], dict[int, float]] = ({}, {})
    for tensor in graph.tensors:
        maker, reader = tensor.producer, tensor.consumer
        ends = zip(found, span, (reader, maker), ("input", "output"), strict=True)
        for own, border, layer, name in ends:
            if maker < border <= reader:
                needed = copies(tree, layer - span[0], name) if span[0] <= layer < span[1] else 1.0
                own[maker] = max(own.get(maker, 0.0), tensor.elements * needed)
    return found


def copies(branch: Branch, layer: int, tensor: str) -> float:
    """Return the number of devices below a node that need each element of a layer's input or output."""
    nest = branch.graph.layers[layer].nest
    carried = nest.names[tensor]
    if isinstance(branch, Leaf):
        pairs = zip(branch.lane.choices[layer], branch.lane.setting.array, strict=True)
        return math.prod(
            choice.devices(ways) / math.prod(degree for dim, degree in choice.degrees if dim in carried)
            for choice, ways in pairs
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
        part: the transfer; forward if the stage reads the tensor, otherwise the stage makes it.
        between: the tensor's dims at both ends.
        layer: the index of its layer in the stage.
        other: the layer at the other end, by its index in its stage.
        outside: the number of levels and uneven splits outside the stages.
    """

    tensor: int
    part: Part
    between: Between
    layer: int
    other: int
    outside: int

    def arrivals(
        self, own: Branch, other: Branch | None, above: Above, first: int = 0
    ) -> Iterator[tuple[Branch, Arrival]]:
        """Yield what each node of the stage receives: from another stage, and to hand it on.

        Args:
            own: a node of the stage.
            other: the node at its place in the stage of the other end, whose layer is taken to be cut in samples without one.
            above: what is left of the tensor above the nodes.
            first: the number of the node's first lane.
        """
        if isinstance(own, Leaf):
            yield own, self._in_leaf(own, other if isinstance(other, Leaf) else None, above, first)
            return
        inside, mine = own.depth >= self.outside, own.offers[self.layer][1:3]
        beyond = None if inside or isinstance(other, Leaf) else other
        if own.depth == self.outside:
            num_bytes = own.element_bytes * received(self.part, above.products, STAGE)
            yield own, Arrival(self.layer, self.tensor, num_bytes)
            above = above._replace(products=mapped(mul, above.products, STAGE))
        theirs = (WHOLE if inside else grid({"batch": len(own.below)}), own.shares)
        if beyond is not None:
            theirs = beyond.offers[self.other][1:3]
        ends = (theirs, mine) if self.part.forward else (mine, theirs)
        (amount,), each = crossed(self.between, (self.part,), above, *ends)
        elements, receivers = tuple(amount.elements[group] for group in own.at_work), own.receivers(first)
        if any(elements):
            kind = "all_gather" if inside and self.part.manner != "sums" else amount.collective
            amount = amount._replace(elements=elements, collective=kind)
            fuller = [(1.0,) * len(lanes) for _, lanes, _ in receivers]
            handed = crossing(amount, receivers, own.depth, own.element_bytes, fuller)
            yield own, Arrival(self.layer, self.tensor, rounds=(handed,))
        for group, (_, lanes, _) in zip(own.at_work, receivers, strict=True):
            node, there = own.below[group], None if beyond is None else beyond.below[group]
            if node is not None:
                yield from self.arrivals(node, there, each[group], lanes[0])

    def _in_leaf(self, own: Leaf, other: Leaf | None, above: Above, number: int) -> Arrival:
        setting, chosen = own.lane.setting, own.lane.choices[self.layer]
        out = max(0, self.outside - own.lane.depth)
        theirs = tuple(grid({"batch": ways}) for ways in setting.array)
        if other is not None:
            theirs = other.lane.choices[self.other]
        theirs = (*theirs[:out], *(WHOLE,) * (len(chosen) - out))
        pair = (theirs, chosen) if self.part.forward else (chosen, theirs)
        seam, *moves = sorted(received_between(self.between, (self.part,), setting.array, pair, above, out))
        handed = placed(priced(setting, moves), number, own.lane.name, own.lane.depth)
        rounds, num_bytes = tuple((piece,) for piece in handed), setting.element_bytes * seam.elements
        return Arrival(self.layer, self.tensor, num_bytes, seam.receivers, rounds)
