"""What was found for a mixed machine: forks, and groups of like devices below them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hypar.schedule.lanes import Crossing, Lane, Receiver
from hypar.sharding.uneven.remainder import part_of
from hypar.sharding.uneven.transfers import between, inside

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.machine.mixed import MixedMachine
    from hypar.network.contraction import ContractedGraph
    from hypar.planning.uneven.layer_shares import Offer
    from hypar.planning.uneven.quadratics import Line
    from hypar.sharding.levels import Level
    from hypar.sharding.placement import Choice
    from hypar.sharding.uneven.transfers import Shares


@dataclass(frozen=True, eq=False, kw_only=True)
class Leaf:
    """A group of like devices.

    Attributes:
        lane: its layers, as large as the forks above leave them, their choices, and what they run on.
        levels: its splits.
        costs: for each of them what every layer costs.
        solver: what solved their cost graphs; empty without any.
        exact: whether to their optimum.
    """

    lane: Lane
    levels: tuple[Level, ...]
    costs: tuple[tuple[float, ...], ...]
    solver: str
    exact: bool

    @property
    def name(self) -> str:
        """Of the group."""
        return self.lane.name

    @property
    def cost(self) -> float:
        """What all its levels cost."""
        return math.fsum(map(math.fsum, self.costs))

    def of(self, graph: ContractedGraph) -> Leaf:
        """The same choices for layers of other sizes; costs are as they were."""
        return replace(self, lane=self.lane._replace(graph=graph))


@dataclass(frozen=True, eq=False, kw_only=True)
class Branching:
    """A fork with all that lies below it.

    Attributes:
        name: of the group that it divides.
        depth: forks above it.
        graph: the layers, as large as these leave them.
        machine: its sides.
        offers: what it does to each layer, with the shares of all sides.
        shares: of all sides, but for layers that have others; a side without any is idle.
        integral: whether they are of whole elements.
        received: what each layer costs each side to receive, ``[sides][layers]``.
        computed: what each layer costs each side to compute, ``[sides][layers]``.
        below: what was found for each side; None for an idle one.
        slowest: whether it costs what its slowest side does; else what all do together.
        element_bytes: bytes of an element.
    """

    name: str
    depth: int
    graph: ContractedGraph
    machine: MixedMachine
    offers: tuple[Offer, ...]
    shares: tuple[float, ...]
    integral: bool
    received: tuple[tuple[float, ...], ...]
    computed: tuple[tuple[float, ...], ...]
    below: tuple[Branch | None, ...]
    slowest: bool
    element_bytes: int

    @property
    def ends(self) -> tuple[float, ...]:
        """What each side costs with all that lies below it."""
        found = []
        for received, computed, below in zip(self.received, self.computed, self.below, strict=True):
            # A device by itself has no level at which its computation would be counted.
            alone = below is None or (isinstance(below, Leaf) and not below.levels)
            found.append(
                math.fsum(received) + (math.fsum(computed) if alone or below is None else below.cost)
            )
        return tuple(found)

    def moved_below(self, side: int) -> float:
        """What a side costs below, without what it computes."""
        return self.ends[side] - math.fsum(self.received[side]) - math.fsum(self.computed[side])

    def lines_below(self, sides: Sequence[int], other: Branching | None) -> tuple[Line, ...]:
        """What some sides cost below as lines over their shares, through here and where another decision is.

        A side with a larger share does not move less by the same choices: where it does, its choices changed between
        the two, and the line is level.
        """
        found = []
        for side in sides:
            share, moved, slope = self.shares[side], self.moved_below(side), 0.0
            if other is not None and other.shares[side] != share:
                slope = max(0.0, (other.moved_below(side) - moved) / (other.shares[side] - share))
            found.append((moved - slope * share, slope))
        return tuple(found)

    @property
    def cost(self) -> float:
        """The cost of the slowest side, or of all."""
        return max(self.ends) if self.slowest else math.fsum(self.ends)

    @property
    def late(self) -> int:
        """The side that ends last."""
        return self.ends.index(max(self.ends))

    @property
    def path(self) -> list[str]:
        """The groups whose splits the cost of the slowest sides sums, this one first."""
        below = self.below[self.late]
        rest = below.path if isinstance(below, Branching) else [below.name] if below is not None else []
        return [self.name, *rest]

    def part(self, side: int) -> ContractedGraph:
        """What is left of the layers to a side."""
        return part_of(
            self.graph,
            [offer.choice for offer in self.offers],
            [offer.shares[side] for offer in self.offers],
            integral=self.integral,
        )

    def of(self, graph: ContractedGraph) -> Branching:
        """The same choices and shares for layers of other sizes; costs are as they were."""
        other = replace(self, graph=graph)
        below = [None if one is None else one.of(other.part(side)) for side, one in enumerate(self.below)]
        return other.with_below(tuple(below))

    def with_below(self, below: tuple[Branch | None, ...]) -> Branching:
        """The same with what lies below each side."""
        return replace(self, below=below)


Branch = Leaf | Branching


def lanes_of(branch: Branch) -> tuple[list[Lane], list[Crossing]]:
    """The groups that work, and what crosses between them, outer forks first."""
    lanes: list[Lane] = []
    crossings = list(_crossings(branch, lanes))
    return lanes, crossings


def _crossings(branch: Branch, lanes: list[Lane]) -> Iterator[Crossing]:
    """The crossings of a branch; its groups are added to ``lanes``."""
    if isinstance(branch, Leaf):
        lanes.append(branch.lane)
        return
    receivers: list[Receiver] = []
    inner: list[Crossing] = []
    for side, below in zip(branch.machine.sides, branch.below, strict=True):
        if below is not None:
            first = len(lanes)
            inner += _crossings(below, lanes)
            own = tuple(range(first, len(lanes)))
            receivers.append(Receiver(side.name, own, side.num_devices, side.bytes_per_s, side.latency_s))
    yield _crossing(branch, tuple(receivers))
    yield from inner


def _crossing(branch: Branching, receivers: tuple[Receiver, ...]) -> Crossing:
    """What the sides of a fork that work receive from each other."""
    at_work = [side for side, below in enumerate(branch.below) if below is not None]
    graph = branch.graph
    kept: dict[Shares, Shares] = {}
    offers: list[tuple[Choice, Shares]] = []
    for offer in branch.offers:
        shares = tuple(offer.shares[side] for side in at_work)
        offers.append((offer.choice, kept.setdefault(shares, shares)))
    return Crossing(
        level=branch.depth,
        receivers=receivers,
        inside=tuple(tuple(inside(layer, *offer)) for layer, offer in zip(graph.layers, offers, strict=True)),
        between=tuple(
            tuple(
                between(
                    tensor,
                    (graph.layers[tensor.producer], graph.layers[tensor.consumer]),
                    (offers[tensor.producer][0], offers[tensor.consumer][0]),
                    (offers[tensor.producer][1], offers[tensor.consumer][1]),
                )
            )
            for tensor in graph.tensors
        ),
        element_bytes=branch.element_bytes,
    )
