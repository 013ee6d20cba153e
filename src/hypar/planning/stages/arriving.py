"""What a stage receives from other stages: from them, over its uneven splits, and inside groups of identical devices.

By ``paper`` a tensor arrives once from the next stage, in as many copies as there are devices that need it, and one that
only passes arrives too. By the other conventions each layer gets what it reads, an element once from the stage that makes it,
and the levels inside hand it on: a tensor goes down the tree of the stage that receives it. Outside the stages the layer at its
other end has shares and choices of its own; inside them no device has anything of the tensor, but of one between two parts of
the same stage.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import mul
from typing import Any, NamedTuple, TypeVar

from hypar.machine.machine import Machine
from hypar.network.nodes import PlanGraph, Tensor
from hypar.planning.folding import counted_from
from hypar.planning.records import Leaf
from hypar.planning.uneven.tree import Branch, Branching
from hypar.schedule.lanes import crossing, placed, priced
from hypar.schedule.tasks import Arrival, Link
from hypar.sharding.amounts.counted import SEAM, STAGE, crossed, received_between
from hypar.sharding.amounts.cuts import Above
from hypar.sharding.amounts.transfers import Between, Network, Part, mapped, received, sends_back
from hypar.sharding.placement import WHOLE, degrees, dim_of, grid, working

T = TypeVar("T")


class Outer(NamedTuple):
    """A layer of another span by its index there, and whether that is another part of the same stage."""

    same: bool
    node: Branch
    layer: int


class Beside(NamedTuple):
    """The links of several groups of identical devices that receive beside each other, each with the fraction that it carries."""

    links: tuple[tuple[Link, float], ...]

    def seconds(self, collective: str, num_bytes: Any) -> Any:
        """Return the time until all groups have received their part of some bytes."""
        return max(link.seconds(collective, num_bytes * fraction) for link, fraction in self.links)


def link_of(machines: Sequence[tuple[Machine, tuple[int, ...]]], stages: int) -> Link | None:
    """Return the link between stages of some groups of identical devices, all of which receive alike; None for a single stage."""
    if stages == 1:
        return None
    links = [own.stage_link(array, places_for(own, array, stages)) for own, array in machines]
    devices = [math.prod(array[own.outside :]) for own, array in machines]
    each = [(link, own / sum(devices)) for link, own in zip(links, devices, strict=True)]
    return links[0] if len(links) == 1 else Beside(tuple(each))


def places_for(machine: Machine, array: tuple[int, ...], stages: int) -> int:
    """Return the ways of the level that stages divide, each of them an array.

    A machine is divided evenly: of more places than stages, the least number that divides it, the last ones stay empty.
    """
    inside, devices = math.prod(array), machine.num_devices
    most = devices // inside
    return next((ways for ways in range(stages, most + 1) if devices % (ways * inside) == 0), stages)


def copies(branch: Branch, layer: int, tensor: str) -> float:
    """Return the number of devices below a node that need each element of a layer's input or output."""
    carried = branch.graph.layers[layer].nest.names[tensor]
    if isinstance(branch, Leaf):
        chosen = branch.lane.choices[layer]
        return working(chosen, branch.lane.setting.array)[-1] / math.prod(degrees(chosen, (*carried,)))
    choice, shares = branch.taken[layer]
    each = [copies(below, layer, tensor) for below in branch.below]
    cut = dim_of(choice) in carried
    return math.fsum((share if cut else 1.0) * own for share, own in zip(shares, each, strict=True))


class Way(NamedTuple):
    """A transfer of a tensor to a layer of a stage, forward if it reads the tensor, from another layer.

    Both layers are indices in their spans; ``outside`` is above the number of all levels for two parts of one stage.
    """

    part: Part
    between: Between
    layer: int
    other: int
    outside: int

    def arrivals(
        self, own: Branch, other: Branch | None, above: Above, first: int = 0
    ) -> Iterator[tuple[Branch, Arrival]]:
        """Yield what arrives at a node and below it, whose lanes are numbered from ``first`` on.

        ``other`` is the node of the layer at the other end, as far as it divides that, and ``above`` what is left of the tensor
        above both.
        """
        if isinstance(own, Leaf):
            yield own, self._in_leaf(own, other if isinstance(other, Leaf) else None, above, first)
            return
        inside, mine = own.depth >= self.outside, own.taken[self.layer]
        beyond = None if inside or not isinstance(other, Branching) else other
        if own.depth == self.outside:
            num_bytes = own.setting.element_bytes * received(self.part, above.products, STAGE)
            yield own, Arrival(self.layer, num_bytes)
            above = above._replace(products=mapped(mul, above.products, STAGE))
        theirs = (WHOLE if inside else grid({"batch": len(own.below)}), own.shares)
        if beyond is not None:
            theirs = beyond.taken[self.other]
        (amount,), each = crossed(self.between, (self.part,), above, *self._in_order(theirs, mine))
        receivers = own.receivers(first)
        if any(amount.elements):
            kind = "all_gather" if inside and self.part.manner != "sums" else amount.collective
            amount = amount._replace(collective=kind)
            handed = crossing(amount, receivers, own.depth, own.setting.element_bytes)
            yield own, Arrival(self.layer, rounds=(handed,))
        for at, (below, (_, lanes)) in enumerate(zip(own.below, receivers, strict=True)):
            there = None if beyond is None else beyond.below[at]
            yield from self.arrivals(below, there, each[at], lanes[0])

    def _in_leaf(self, own: Leaf, other: Leaf | None, above: Above, number: int) -> Arrival:
        setting, chosen = own.lane.setting, own.lane.choices[self.layer]
        out = min(max(0, self.outside - own.lane.depth), len(chosen))
        theirs = tuple(grid({"batch": ways}) for ways in setting.array)
        if other is not None:
            theirs = other.lane.choices[self.other]
        pair = self._in_order((*theirs[:out], *(WHOLE,) * (len(chosen) - out)), chosen)
        border = None if self.outside == sys.maxsize else out
        found = received_between(self.between, (self.part,), setting.array, pair, above, border)
        seam = next((one for one in found if one.level == SEAM), None)
        arrived: tuple[float, int] = (
            (0.0, 1) if seam is None else (setting.element_bytes * seam.elements, seam.receivers)
        )
        moves = priced(setting, [one for one in found if one is not seam])
        rounds = tuple((piece,) for piece in placed(moves, number, own.lane.name, own.lane.depth))
        return Arrival(self.layer, *arrived, rounds)

    def _in_order(self, theirs: T, mine: T) -> tuple[T, T]:
        return (theirs, mine) if self.part.forward else (mine, theirs)


def span_of(graph: PlanGraph, start: int, end: int, network: Network | None = None) -> PlanGraph:
    """Return the layers from ``start`` up to ``end``, with the tensors between them.

    The transfers of the network, if given, tell the layers that send errors to others.
    """
    inside, sent, fed = [], [], []
    for at, tensor in enumerate(graph.tensors):
        makes, reads = (start <= layer < end for layer in (tensor.producer, tensor.consumer))
        if makes and reads:
            inside.append(counted_from(start, tensor))
        elif makes:
            sent.append(tensor.producer - start)
        elif reads and network is not None and sends_back(network.parts[at]):
            fed.append(tensor.consumer - start)
    ties = () if network is None else _ties_inside(graph, start, end)
    return PlanGraph(
        graph.layers[start:end], tuple(inside), sent=frozenset(sent), fed=frozenset(fed), ties=ties
    )


def tied_outside(ties: Sequence[Tensor], start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return the layers of a span whose weight others use as well, and the number of stages that send them terms, or their sum.

    The stage of the weight's own layer gets terms from every other one, each in a stage of its own, and each of these its sum.
    """
    inside = range(start, end)
    own = Counter(
        tie.producer - start for tie in ties if tie.consumer not in inside if tie.producer in inside
    )
    uses = (tie.consumer - start for tie in ties if tie.consumer in inside if tie.producer not in inside)
    return (*own.items(), *((layer, 1) for layer in uses))


def _ties_inside(graph: PlanGraph, start: int, end: int) -> tuple[Tensor, ...]:
    """Return the weights that several of the layers from ``start`` up to ``end`` use, each from the first of these."""
    firsts: dict[int, int] = {}
    for tie in graph.ties:
        own = (layer for layer in (tie.producer, tie.consumer) if start <= layer < end)
        firsts[tie.producer] = min((firsts.get(tie.producer, end), *own))
    inside = (tie for tie in graph.ties if firsts[tie.producer] < tie.consumer < end)
    return tuple(counted_from(start, tie._replace(producer=firsts[tie.producer])) for tie in inside)


def read_outside(graph: PlanGraph, start: int, end: int) -> tuple[Tensor, ...]:
    """Return the tensors that these layers read of earlier layers, whose indices are negative, and those that later ones read."""
    ends = ((one, start <= one.producer < end, start <= one.consumer < end) for one in graph.tensors)
    return tuple(counted_from(start, one) for one, makes, reads in ends if makes != reads)
