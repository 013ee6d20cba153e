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

from hypar.costs.graphs.meetings import (
    BATCH,
    IDLE,
    Dims,
    UncountableError,
    form_of,
    meeting,
    options_of,
    powers_of,
)
from hypar.costs.graphs.tiered import tiered
from hypar.costs.graphs.worked import Layer, Worked
from hypar.sharding.amounts.above import outermost
from hypar.sharding.amounts.inside import computing, elements_of
from hypar.sharding.dims import SPATIAL
from hypar.sharding.placement import ALONE, WHOLE, simple
from hypar.solve.counts.forms import EVERYWHERE, CountGraph, Form, Link, Term, merged
from hypar.solve.counts.idle import Idle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.costs.base import Cost
    from hypar.costs.graphs.meetings import Meeting
    from hypar.network.nodes import PlanGraph
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.above import Above
    from hypar.sharding.amounts.flows import Sums
    from hypar.sharding.amounts.parts import Part
    from hypar.sharding.levels import Level
    from hypar.sharding.placement import Choice, Options
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
                at[level] = options_of(dims[option : option + 1], ways)[0]
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
    known: dict[object, _Offered] = {}
    offered = []
    for own in options:
        # Layers share the options of a level.
        key = tuple(map(id, own))
        if key not in known:
            known[key] = _offered(own, levels)
        offered.append(known[key])
    dims = tuple(tuple(dict.fromkeys(dim for at in own.dims for dim in at)) for own in offered)
    kinds = [(level.ways, tuple(own.dims[level.index] for own in offered)) for level in levels]
    tiers = tiered(cost, levels, kinds)
    groups = tiers.groups
    above = outermost(graph, cost.convention)
    replaced = [own.replaced for own in offered]
    amounts = _Amounts(
        dims, replaced, sorted({level.ways for level in levels}), tiers.prices, late=bool(tiers.latencies)
    )
    terms = amounts.inside(graph, above.flows.sums)
    ways, depths = tuple(levels[group[0]].ways for group in groups), tuple(map(len, groups))
    in_groups = tuple(
        tuple(tuple(own.index(dim) for dim in at.dims[group[0]]) for group in groups)
        for own, at in zip(dims, offered, strict=True)
    )
    further: tuple[Own, ...] = ()
    if cost.counts_work or tiers.latencies:
        worked = Worked(cost, levels[-1], ways, depths, tiers)
        inside = [merged(own, len(of)) for own, of in zip(terms, dims, strict=True)]
        layers = zip(graph.layers, dims, replaced, in_groups, above.flows.sums, inside, strict=True)
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


class _Offered(NamedTuple):
    """The dims that a layer may divide at each level, and those whose place its batch takes."""

    dims: tuple[Dims, ...]
    replaced: Dims


def _offered(options: tuple[Options, ...], levels: Sequence[Level]) -> _Offered:
    """Return the dims that a layer may divide at each level."""
    every, replaced = [], dict[str | None, None]()
    for own, level in zip(options, levels, strict=True):
        dims = [_dim_of(choice, level.ways) for choice in own]
        spatial = [dim for dim in dims if dim in SPATIAL]
        if spatial and BATCH not in dims:
            raise UncountableError
        replaced |= dict.fromkeys(spatial)
        every.append(tuple(dim for dim in dims if dim not in SPATIAL))
    return _Offered(tuple(every), tuple(replaced))


def _dim_of(choice: Choice, ways: int) -> str | None:
    """Return the dim that a choice divides over all devices; None for none.

    Raises:
        UncountableError: it divides several, or leaves devices idle.
    """
    if choice in {WHOLE, ALONE}:
        return IDLE if choice == ALONE else None
    if not simple(choice, ways) or len(choice.divided) != 1:
        raise UncountableError
    return choice.divided[0]


class _Amounts:
    """The terms and forms of layers and tensors; equal ones are computed once."""

    def __init__(
        self,
        dims: tuple[Dims, ...],
        replaced: list[Dims],
        ways: list[int],
        prices: tuple[float, float],
        *,
        late: bool,
    ) -> None:
        self.dims, self.replaced, self.ways, self.prices, self.late = dims, replaced, ways, prices, late

    def inside(self, graph: PlanGraph, sums: Sequence[Sums]) -> list[list[Term]]:
        """Return the terms of each layer: of adding up partial sums, twice what all but one device have."""
        found: dict[object, list[Term]] = {}
        keys = [
            (layer.nest, own, dims) for layer, own, dims in zip(graph.layers, sums, self.dims, strict=True)
        ]
        for nest, own, dims in dict.fromkeys(keys):
            found[nest, own, dims] = self._inside(nest, own, dims)
        return [[*found[key]] for key in keys]

    def apart(self, graph: PlanGraph, above: Above) -> list[list[Term]]:
        """Return the terms of each layer where a weight that several layers use costs the mean of what each alone would add up.

        All of them together have terms on no fewer devices than any one, and so cost no less than the mean.
        """
        found = self.inside(graph, above.flows.sums)
        owners = [tie.producer for tie in graph.ties]
        for node in {*owners, *(tie.consumer for tie in graph.ties)}:
            owner = next((tie.producer for tie in graph.ties if tie.consumer == node), node)
            sums = above.flows.sums[node]._replace(weight=True)
            share = 1.0 / (1 + owners.count(owner))
            found[node] = self._inside(graph.layers[node].nest, sums, self.dims[node], share)
        return found

    def _inside(self, nest: Nest, sums: Sums, dims: Dims, share: float = 1.0) -> list[Term]:
        if not nest.multiplies:
            return []
        found = []
        amounts = elements_of(nest, sums)[:, 0] * self.prices[0]
        amounts[[*nest.names].index("weight")] *= share
        for row, elements in enumerate(amounts.tolist()):
            powers = {
                tuple(
                    powers_of(
                        1.0 + computing(nest.unsized, options_of(dims, ways), ways)[row, :, 1] / 2.0, ways
                    ).tolist()
                )
                for ways in self.ways
            }
            if len(powers) > 1:
                raise UncountableError
            found += [Term(2 * elements, powers.pop()), Term(-2 * elements, (0,) * len(dims))]
        return found

    def links(self, above: Above) -> list[Link]:
        """Return the costs between layers."""
        meetings: dict[object, Meeting] = {}
        forms: dict[object, Form] = {}
        found = []
        for at, tensor in enumerate(above.tensors):
            ends = (tensor.producer, tensor.consumer)
            dims = (self.dims[ends[0]], self.dims[ends[1]])
            replaced = (self.replaced[ends[0]], self.replaced[ends[1]])
            key = (above.between[at], dims, replaced)
            if key not in meetings:
                meetings[key] = meeting(above.between[at], dims, replaced, self.ways)
            parts = above.parts[at]
            own = (key, id(parts))
            if own not in forms:
                form = form_of(parts, self.prices, meetings[key], late=self.late)
                forms[own] = form._replace(idle=_idle(form, parts, dims))
            found.append(Link(*ends, forms[own]))
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
