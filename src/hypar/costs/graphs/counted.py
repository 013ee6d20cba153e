"""The problem of counts of a network: costs under ``moved`` and ``fused`` where every level multiplies what is moved.

Levels at which an element costs the same are a tier; a step's time on a machine has a term for each. What its counts leave out makes a plan
cost more than they say: the order of levels in a tier, by latency and idle devices, and cuts of height and width that save
computation.

Cuts of height and width are left out where a cut of the batch can take their place: in every layer at once it leaves the
sums of weight gradients as they are, reads no halo, and no two layers share less.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hypar.costs.graphs.exponents import choice_of, form_of, meeting, offered, require_batch
from hypar.costs.graphs.tiered import tiered
from hypar.costs.graphs.worked import Layer, Worked
from hypar.sharding.amounts.inside import elements_of
from hypar.sharding.amounts.transfers import network_of
from hypar.sharding.placement import IDLE, WHOLE, partial_results
from hypar.solve.counts.forms import EVERYWHERE, CountGraph, Form, Link, Term, merged
from hypar.solve.counts.idle import Idle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.costs.base import Cost
    from hypar.costs.graphs.exponents import Dims, Meeting, Offered
    from hypar.network.nodes import PlanGraph
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.transfers import Network, Part, Sums
    from hypar.sharding.levels import Level
    from hypar.sharding.placement import Options
    from hypar.solve.counts.tiers import Own
    from hypar.solve.edge import Indices


class Counted(NamedTuple):
    """A network as a problem of counts.

    Attributes:
        graph: the problem.
        dims: for each layer the dims that it may divide, in the order of its options.
        levels: the place of each level in the array, the levels of a group next to each other.
        ways: the ways of each of these levels.
    """

    graph: CountGraph
    dims: tuple[Dims, ...]
    levels: tuple[int, ...]
    ways: tuple[int, ...]

    def choices(self, orders: Indices) -> tuple[Options, ...]:
        """Return the choices of each layer, outermost first, of a plan ``[layers, levels]``."""
        found = []
        for dims, order in zip(self.dims, orders.tolist(), strict=True):
            at = [WHOLE] * len(self.levels)
            for level, ways, option in zip(self.levels, self.ways, order, strict=True):
                at[level] = choice_of(dims[option], ways)
            found.append(tuple(at))
        return tuple(found)


def counted(
    cost: Cost,
    graph: PlanGraph,
    levels: Sequence[Level],
    options: Sequence[tuple[Options, ...]],
) -> Counted:
    """Return the problem of counts of a network.

    Raises:
        UncountableError: it is none.
    """
    known: dict[object, Offered] = {}
    offers = []
    for own in options:
        # Layers share the options of a level.
        key = tuple(map(id, own))
        if key not in known:
            known[key] = offered(own, levels)
        offers.append(known[key])
    dims = tuple(own.dims for own in offers)
    kinds = [(level.ways, tuple(own.levels[level.index] for own in offers)) for level in levels]
    tiers = tiered(cost, levels, kinds)
    groups = tiers.groups
    above = network_of(graph, cost.convention)
    amounts = _Amounts(offers, tiers.prices, late=bool(tiers.latencies))
    terms = amounts.inside(graph, above.sums)
    ways, depths = tuple(levels[group[0]].ways for group in groups), tuple(map(len, groups))
    in_groups = tuple(
        tuple(tuple(own.dims.index(dim) for dim in own.levels[group[0]]) for group in groups)
        for own in offers
    )
    further: tuple[Own, ...] = ()
    if cost.counts_work or tiers.latencies:
        worked = Worked(cost, levels[-1], ways, depths, tiers)
        inside = [merged(own, len(of)) for own, of in zip(terms, dims, strict=True)]
        replaced = [own.replaced for own in offers]
        layers = zip(graph.layers, dims, replaced, in_groups, above.sums, inside, strict=True)
        further = tuple(worked.of(Layer(*own)) for own in layers)
    problem = CountGraph(
        ways=ways,
        depths=depths,
        offered=in_groups,
        nodes=tuple(merged(own, len(of)) for own, of in zip(terms, dims, strict=True)),
        links=tuple(amounts.links(above)),
        tiers=tiers.tiers,
        latencies=tiers.latencies,
        own=further,
        idle=tuple(own.index(IDLE) if IDLE in own else None for own in dims),
    )
    if graph.ties and not further:
        apart = [merged(own, len(of)) for own, of in zip(amounts.apart(graph, above), dims, strict=True)]
        links = problem.links[: len(graph.tensors)]
        problem = replace(problem, looser=replace(problem, nodes=tuple(apart), links=links))
    order = tuple(level for group in groups for level in group)
    return Counted(problem, dims, order, tuple(levels[level].ways for level in order))


class _Amounts:
    """The terms and forms of layers and tensors; equal ones are computed once."""

    def __init__(self, offers: Sequence[Offered], prices: tuple[float, float], *, late: bool) -> None:
        self.offers, self.prices, self.late = offers, prices, late

    def inside(self, graph: PlanGraph, sums: Sequence[Sums]) -> list[list[Term]]:
        """Return the terms of each layer: of adding up partial sums, twice what all but one device have."""
        found: dict[object, list[Term]] = {}
        keys = [
            (layer.nest, own, of.dims) for layer, own, of in zip(graph.layers, sums, self.offers, strict=True)
        ]
        for key in dict.fromkeys(keys):
            found[key] = self._inside(*key)
        return [[*found[key]] for key in keys]

    def apart(self, graph: PlanGraph, above: Network) -> list[list[Term]]:
        """Return the terms of each layer where a weight that several layers use costs the mean of what each alone would add up.

        All of them together have terms on no fewer devices than any one, and so cost no less than the mean.
        """
        found = self.inside(graph, above.sums)
        owners = [tie.producer for tie in graph.ties]
        for node in {*owners, *(tie.consumer for tie in graph.ties)}:
            owner = next((tie.producer for tie in graph.ties if tie.consumer == node), node)
            sums = above.sums[node]._replace(weight=True)
            share = 1.0 / (1 + owners.count(owner))
            found[node] = self._inside(graph.layers[node].nest, sums, self.offers[node].dims, share)
        return found

    def _inside(self, nest: Nest, sums: Sums, dims: Dims, share: float = 1.0) -> list[Term]:
        if not nest.multiplies:
            return []
        found = []
        for tensor, elements in zip(nest.names, elements_of(nest, sums)[:, 0].tolist(), strict=True):
            weight = 2 * elements * self.prices[0] * (share if tensor == "weight" else 1.0)
            powers = tuple(int(tensor in partial_results(nest, dim)) for dim in dims)
            found += [Term(weight, powers), Term(-weight, (0,) * len(dims))]
        return found

    def links(self, above: Network) -> list[Link]:
        """Return the costs between layers."""
        meetings: dict[object, Meeting] = {}
        forms: dict[object, Form] = {}
        found = []
        for at, tensor in enumerate(above.tensors):
            ends = (self.offers[tensor.producer], self.offers[tensor.consumer])
            dims = (ends[0].dims, ends[1].dims)
            key = (above.between[at], *ends)
            if key not in meetings:
                require_batch(above.between[at], ends)
                meetings[key] = meeting(above.between[at], dims)
            parts = above.parts[at]
            own = (key, id(parts))
            if own not in forms:
                form = form_of(parts, self.prices, meetings[key], late=self.late)
                forms[own] = form._replace(idle=_idle(form, parts, dims))
            found.append(Link(tensor.producer, tensor.consumer, forms[own]))
        return found


def _idle(form: Form, parts: tuple[Part, ...], dims: tuple[Dims, Dims]) -> Idle | None:
    """Return what is received more slowly where devices are idle; None for forms of which that is not counted."""
    ends = tuple(own.index(IDLE) if IDLE in own else None for own in dims)
    changes = [(part.forward, change) for part in parts for change in part.changes]
    forward = sum(change.elements for way, change in changes if way and change.has == "both")
    backward = sum(change.elements for way, change in changes if not way and change.has == "back")
    if ends == (None, None) or form.both != -(forward + backward):
        return None
    whole = tuple(tuple(int(own == EVERYWHERE) for own in of) for of in (form.made, form.read))
    return Idle((ends[0], ends[1]), (whole[0], whole[1]), (backward, forward))
