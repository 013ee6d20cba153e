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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter, mul
from typing import Any, NamedTuple, TypeVar

from hypar.machine.machine import Machine
from hypar.machine.setting import Setting
from hypar.network.nodes import PlanGraph, Tensor
from hypar.planning.records import Leaf
from hypar.planning.resolved import Resolved
from hypar.planning.uneven.tree import Branch, Branching
from hypar.schedule.lanes import crossing, placed, priced
from hypar.schedule.tasks import Arrival, Entering, Link
from hypar.sharding.amounts.counted import SEAM, STAGE, crossed, received_between
from hypar.sharding.amounts.cuts import Above
from hypar.sharding.amounts.transfers import Between, Network, Part, mapped, network_of, received
from hypar.sharding.conventions import MOVED, PAPER
from hypar.sharding.placement import WHOLE, degrees, dim_of, grid, working

T = TypeVar("T")


@dataclass(frozen=True, eq=False, kw_only=True)
class StageDevices:
    """The devices of a group on which a network has a number of its ``stages``, and what comes to them.

    The arrays of the ``request`` are those inside a stage, and may be empty; ``setting`` is that of a stage, or of its first group
    of identical devices. ``microbatch`` has the layers for one; ``group`` is None if all devices of the machine are identical,
    and so are the ``links`` from the stages before and behind where there are none.
    """

    request: Resolved
    microbatch: PlanGraph
    setting: Setting
    group: str | None
    stages: int
    links: tuple[Link | None, Link | None]

    @property
    def network(self) -> Network:
        """The transfers whatever the choices, if sums are added up before they leave a stage."""
        return network_of(self.microbatch, MOVED, tied=False)

    @property
    def microbatches(self) -> int:
        """The number of microbatches in a mini-batch."""
        return self.request.microbatches or 1

    @property
    def replicas(self) -> int:
        """The number of parts of a stage that the levels outside the stages make."""
        return math.prod(self.setting.array[: self.request.outside])

    @property
    def ties(self) -> tuple[Tensor, ...]:
        """The weights that two layers of the network use; none below uneven splits around the stages, where each has its own."""
        apart = self.setting.convention == PAPER or (self.request.outside and self.request.heterogeneous)
        return () if apart else self.microbatch.ties


class Outer(NamedTuple):
    """A layer of another span by its index there, and whether that is another part of the same stage."""

    node: Branch
    layer: int
    same: bool


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


At = tuple[str, "Branch", Arrival]
"""What arrives in a phase at a node of a stage."""


def entering(
    devices: StageDevices, ends: tuple[int, int], tree: Branch, outer: Callable[[int], Outer | None]
) -> tuple[Entering, Entering]:
    """Return what a stage on some devices receives of a microbatch's F, and of its E.

    Its ``ends`` are its first layer and the first one behind it, its cuts a ``tree``; ``outer`` returns where a layer outside is,
    None if it is taken to be cut in samples outside the stages.
    """
    by_paper = devices.setting.convention == PAPER
    every = _by_paper(devices, ends, tree) if by_paper else _by_tensor(devices, ends, tree, outer)
    found = [at for at in every if at[2].num_bytes or at[2].rounds]
    links = zip(("forward", "backward"), devices.links, strict=True)
    received, returned = (
        _over(devices, link, [own for own in found if own[0] == phase]) for phase, link in links
    )
    return received, returned


def _over(devices: StageDevices, link: Link | None, arriving: Sequence[At]) -> Entering:
    """Return what arrives in one phase; the nodes at the place of the stages receive beside each other."""
    whole = Entering.over(link, (own for _, _, own in arriving))
    if link is None or not devices.request.outside:
        return whole
    nodes: dict[str, list[At]] = {}
    for at in arriving:
        nodes.setdefault(at[1].name, []).append(at)
    times = [0.0]
    for each in nodes.values():
        settings = [leaf.lane.setting for leaf in each[0][1].leaves()]
        link = link_of([(own.machine, own.array) for own in settings], devices.stages)
        times.append(Entering.over(link, (own for _, _, own in each)).link_s)
    return whole._replace(link_s=max(times))


def _by_paper(devices: StageDevices, span: tuple[int, int], tree: Branch) -> Iterator[At]:
    """Yield what arrives of F and of E: of each producer's output once, and from the next stage.

    A stage sends what its neighbour needs, in as many copies as there are devices that need it, or passes on.
    """
    found: dict[tuple[str, int], float] = {}
    for tensor in devices.microbatch.tensors:
        maker, reader = tensor.producer, tensor.consumer
        ends = zip(("forward", "backward"), span, (reader, maker), ("input", "output"), strict=True)
        for phase, border, layer, name in ends:
            if maker < border <= reader:
                needed = copies(tree, layer - span[0], name) if span[0] <= layer < span[1] else 1.0
                found[phase, maker] = max(found.get((phase, maker), 0.0), tensor.elements * needed)
    size, replicas = devices.setting.element_bytes, devices.replicas if isinstance(tree, Leaf) else 1
    for (phase, maker), elements in found.items():
        yield phase, tree, Arrival(maker, size * elements, replicas)


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


def _by_tensor(
    devices: StageDevices, span: tuple[int, int], tree: Branch, outer: Callable[[int], Outer | None]
) -> list[At]:
    """Return what arrives of F and of E for each tensor, what other parts of the stage have last."""
    moved, found = devices.network, list[tuple[bool, At]]()
    for index, tensor in enumerate(devices.microbatch.tensors):
        ends = (tensor.producer, tensor.consumer)
        makes, reads = (span[0] <= end < span[1] for end in ends)
        if makes == reads:
            continue
        other = outer(ends[makes])
        same, node, layer = (False, None, 0) if other is None else (other.same, other.node, other.layer)
        outside = sys.maxsize if same else devices.request.outside
        for part in moved.parts[index]:
            if part.forward is reads and not (same and part.inside):
                way = _Way(part, moved.between[index], ends[reads] - span[0], layer, outside)
                above = Above(image=moved.images[index])
                found += [(same, (part.phase, *own)) for own in way.arrivals(tree, node, above)]
    return [own for _, own in sorted(found, key=itemgetter(0))]


class _Way(NamedTuple):
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
        """Return what both layers have, the producer first."""
        return (theirs, mine) if self.part.forward else (mine, theirs)
