"""The tree planned for a heterogeneous machine: uneven splits, and groups of identical devices below them; as lanes and records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, compress, pairwise, repeat
from typing import TYPE_CHECKING, Any

from hypar.machine.setting import Setting
from hypar.network.graph import LayerGraph
from hypar.network.nodes import PlanGraph, PlanNode
from hypar.plan.plan import Plan
from hypar.planning.question import NO_MACHINE, cost_of, setting_for
from hypar.planning.records import GroupNode, Leaf
from hypar.planning.resolved import Resolved
from hypar.planning.uneven.split import LEAST_GAIN
from hypar.schedule.lanes import Ends, Lane, Lanes, Receiver, Rounds, crossing
from hypar.schedule.memory import holds
from hypar.sharding.amounts.counted import Received, State, outermost
from hypar.sharding.amounts.factors import Taken
from hypar.sharding.conventions import PAPER
from hypar.sharding.layout import GroupShare
from hypar.sharding.placement import Choice, Options, dim_of, divided_einsum, divided_size, whole_ends
from hypar.sharding.tree import WHOLE_ARRAY, GroupRecord, Split
from hypar.units import exact_number

if TYPE_CHECKING:
    from hypar.machine.machine import DeviceGroup, Machine


HALVINGS = 16
"""Number of halvings of the interval of shares that may fit."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Branching(GroupNode):
    """An uneven split with its subtree; a group without a share of any layer is idle.

    It divides the groups of a ``machine``, a group of some ``name`` itself, below ``depth`` other uneven splits, which leave
    the sizes of the layers of ``graph``. Of the ``groups`` that work, in the order of the machine, ``taken`` has the choice
    of each layer with their shares, of which equal ones are one object; ``shares`` are the common ones, from which single layers
    may differ; ``entered`` is the state that the splits above leave, by which costs are counted, None for all and by ``paper``; ``received`` and ``computed`` what it costs each to receive and to compute each layer, ``[groups][layers]``;
    ``below`` their subtrees. The cost is that of the ``slowest`` group, or the sum over all.
    """

    name: str
    depth: int
    graph: PlanGraph
    machine: Machine
    groups: tuple[DeviceGroup, ...] = ()
    taken: tuple[Taken, ...] = ()
    shares: tuple[float, ...] = ()
    entered: State | None = None
    received: tuple[tuple[float, ...], ...] = ()
    computed: tuple[tuple[float, ...], ...] = ()
    below: tuple[Branch, ...] = ()
    slowest: bool = True

    @property
    def spent(self) -> list[list[float]]:
        """The cost of each layer for each group; of a single device, which has no level, with its computation, ``[groups][layers]``."""
        alone = [isinstance(below, Leaf) and not below.levels for below in self.below]
        rows = zip(alone, self.received, self.computed, strict=True)
        return [[*map(sum, zip(*own, strict=True))] if single else [*own[0]] for single, *own in rows]

    @property
    def ends(self) -> list[float]:
        """The cost of each group with its subtree."""
        return [math.fsum(own) + below.cost for own, below in zip(self.spent, self.below, strict=True)]

    @property
    def cost(self) -> float:
        """The cost of the slowest group, or of all."""
        return max(self.ends) if self.slowest else math.fsum(self.ends)

    @property
    def late(self) -> int:
        """The index of the group that ends last."""
        return self.ends.index(max(self.ends))

    @property
    def path(self) -> list[str]:
        """The groups whose splits the cost of the slowest groups sums, this one first."""
        below = self.below[self.late]
        return [self.name, *(below.path if isinstance(below, Branching) else [below.name])]

    @property
    def moved(self) -> list[float]:
        """The cost of the subtree of each group that works, without its computation."""
        each = zip(self.ends, self.received, self.computed, strict=True)
        return [end - math.fsum(received) - math.fsum(computed) for end, received, computed in each]

    def spread(self, amounts: Sequence[float], groups: Iterable[DeviceGroup]) -> list[float]:
        """Return amounts of the groups that work for some groups, 0 for idle ones."""
        given = dict(zip(self.groups, amounts, strict=True))
        return [given.get(group, 0.0) for group in groups]

    def decided(self, taken: Sequence[Taken], shares: Sequence[float]) -> Branching:
        """Return the split with choices and shares of the groups that work, of which those without any are left out."""
        works = [any(own) for own in zip(*(own for _, own in taken), strict=True)]
        kept = {own: tuple(compress(own, works)) for _, own in taken}
        return replace(
            self,
            groups=tuple(compress(self.groups, works)),
            taken=tuple((choice, kept[own]) for choice, own in taken),
            shares=tuple(compress(shares, works)),
        )

    def sides(self) -> Iterator[tuple[DeviceGroup, PlanGraph]]:
        """Yield the groups that work, each with its layers, which have the sizes that its shares leave, and their tensors."""
        choices, shares = zip(*self.taken, strict=True)
        for group, own in zip(self.groups, zip(*shares, strict=True), strict=True):
            yield group, graph_of_group(self.graph, choices, own)

    def left(self, above: Ends) -> Iterator[Ends]:
        """Yield for each group its shares at the splits above and at this one."""
        each = zip(self.graph.layers, self.taken, above or repeat(()), strict=False)
        rows = ([(*own, share) for share in _group_shares(layer, taken)] for layer, taken, own in each)
        return zip(*rows, strict=True)

    def leaves(self) -> Iterator[Leaf]:
        """Yield the groups of identical devices that work."""
        for below in self.below:
            yield from below.leaves()

    @property
    def setting(self) -> Setting:
        """The setting of the first group of identical devices, whose convention and element size are those of all."""
        return next(self.leaves()).lane.setting

    def receivers(self, first: int) -> list[Receiver]:
        """Return the groups as they receive from each other, with their lanes numbered from the first one on."""
        counts = (len([*below.leaves()]) for below in self.below)
        each = pairwise(accumulate(counts, initial=first))
        return [(group, tuple(range(*own))) for group, own in zip(self.groups, each, strict=True)]

    def lanes(self, above: Ends = (), entered: State | None = None, first: int = 0) -> Lanes:
        """Return the groups that work, and the transfers between them, outer splits first."""
        setting, receivers = self.setting, self.receivers(first)
        entered = entered or outermost(self.graph, setting.convention, tied=False)
        of_layers, of_tensors, states = entered.crossing(self.graph, self.taken)

        def rounds(amounts: tuple[Received, ...]) -> Rounds:
            found = (crossing(own, receivers, self.depth, setting.formats.of(own.phase)) for own in amounts)
            return tuple(filter(None, found))

        lanes: list[Lane] = []
        crossings = [(tuple(map(rounds, of_layers)), tuple(map(rounds, of_tensors)))]
        for below, state, ends in zip(self.below, states, self.left(above), strict=True):
            own = None if setting.convention == PAPER else state
            inner = below.lanes(ends, own, first + len(lanes))
            lanes += inner[0]
            crossings += inner[1]
        return lanes, crossings

    def reached(self, above: Ends = (), only: int | None = None) -> Iterator[Lane]:
        """Yield the groups that work, or one alone, with their shares at all uneven splits."""
        for at, (below, ends) in enumerate(zip(self.below, self.left(above), strict=True)):
            if only in {None, at}:
                yield from below.reached(ends)

    def of(self, graph: PlanGraph) -> Branching:
        """Return the same choices and shares for layers of other sizes, with the costs unchanged."""
        own = replace(self, graph=graph)
        sides = zip(self.below, own.sides(), strict=True)
        return replace(own, below=tuple(below.of(left) for below, (_, left) in sides))

    def beats(self, other: Branching | None) -> bool:
        """Return whether its subtree is cheaper than that of another one, if there is any."""
        return other is None or self.cost < other.cost * (1 - LEAST_GAIN)

    def fits(self, only: int | None = None) -> bool:
        """Return whether the shards of every device below, or in one group alone, fit its memory, with their shares at all splits."""
        return holds(self.reached(only=only))

    def limits(self) -> list[float]:
        """Return the largest share of each group that fits its devices' memory by bisection, given the choices made so far."""
        found = []
        for group, share in enumerate(self.shares):
            low, high = (1.0, 1.0) if self.fits(group) else (0.0, share)
            for _ in range(HALVINGS if low < high else 0):
                middle = (low + high) / 2
                low, high = (middle, high) if self.with_share(group, middle).fits(group) else (low, middle)
            found.append(low)
        return found

    def with_share(self, group: int, share: float) -> Branching:
        """Return the same choices where a group has a share of every layer and the others divide the rest as before."""
        rest = math.fsum(own for other, own in enumerate(self.shares) if other != group)
        scale = (1 - share) / rest if rest else 0.0
        shares = tuple(share if other == group else scale * own for other, own in enumerate(self.shares))
        taken = tuple((choice, shares) for choice, _ in self.taken)
        return replace(self, shares=shares, taken=taken).of(self.graph)

    def taking(self, chosen: Iterator[Options]) -> Branching:
        """Return the split with other choices at the same shares, then those of the groups below, with the costs unchanged."""
        taken = tuple((next(chosen)[0], shares) for _, shares in self.taken)
        below = tuple([below.taking(chosen) for below in self.below])
        return replace(self, taken=taken, below=below).of(self.graph)


Branch = Leaf | Branching


def _group_shares(layer: PlanNode, taken: Taken) -> list[GroupShare]:
    """Return the share of a layer that each group has at a split, whose ends are those of whole elements."""
    dim, shares = dim_of(taken[0]), taken[1]
    size = 0 if dim is None else layer.nest.sizes[dim]
    ends = iter([(0.0, 1.0)] * len(shares))
    if size:
        given = compress(pairwise(accumulate(shares, initial=0.0)), shares)
        ends = iter([(start / size, end / size) for start, end in whole_ends(size, [*given])])
    every = tuple([next(ends) if share else None for share in shares])
    return [GroupShare(dim, every, group) for group in range(len(every))]


def graph_of_group(
    graph: PlanGraph, choices: Sequence[Choice], shares: Sequence[float], *, integral: bool = False
) -> PlanGraph:
    """Return the network that a device group computes of a graph, with its share of each layer by the choices at a split.

    Divided sizes are real numbers unless the shares are of whole elements, ``integral``. Equal layers with equal shares have one
    nest object, also in different calls, so that what is cached by nest is found again.
    """
    layers, tensors = [], []
    for layer, choice, share in zip(graph.layers, choices, shares, strict=True):
        dim, nest = dim_of(choice), layer.nest
        own = nest if dim is None else divided_einsum(nest, dim, share, integral=integral)
        made = share if dim in nest.names["output"] else 1
        elements = divided_size(layer.output_elements, made, integral=integral)
        layers.append(replace(layer, nest=own, output_elements=elements))
    for tensor in graph.tensors:
        end = tensor.consumer
        name = graph.layers[end].nest.names.get(tensor.operand, {}).get(dim_of(choices[end]) or "")
        if name is not None:
            part = partial(divided_size, share=shares[end], integral=integral)
            shape = tuple((own, part(size) if own == name else size) for own, size in tensor.shape)
            tensor = tensor._replace(elements=part(tensor.elements), shape=shape)  # noqa: PLW2901
        tensors.append(tensor)
    return replace(graph, layers=tuple(layers), tensors=tuple(tensors))


def splits_of(*stages: Branch, summed: bool = False) -> Iterator[Split]:
    """Yield the splits of a group, or of the same group in several stages, then those of the device groups inside it.

    The cost of an uneven split is what its slowest device group receives, or what all receive, ``summed``.
    """
    uneven = [own for own in stages if isinstance(own, Branching)]
    if uneven:
        yield _uneven_split(uneven, summed=summed or not uneven[0].slowest)
        for below in zip(*(own.below for own in uneven), strict=True):
            yield from splits_of(*below, summed=summed)
        return
    leaves = [own for own in stages if isinstance(own, Leaf)]
    for level in leaves[0].levels:
        at, even = level.index, [1 / level.ways] * level.ways
        chosen = [own[at] for leaf in leaves for own in leaf.lane.choices]
        costs = [cost for leaf in leaves for cost in leaf.answer.costs[at]]
        yield _split(stages, chosen, costs, level=leaves[0].lane.depth + at, shares=even)


def _uneven_split(stages: Sequence[Branching], *, summed: bool) -> Split:
    first, groups = stages[0], stages[0].machine.groups
    spread = partial(first.spread, groups=groups)
    taken = [one for own in stages for one in own.taken]
    costs = (
        map(math.fsum, zip(*own.received, strict=True)) if summed else own.spent[own.late] for own in stages
    )
    each = (zip(*(getattr(own, name) for own in stages), strict=True) for name in ("received", "computed"))
    amounts = (spread([math.fsum(map(math.fsum, rows)) for rows in of_groups]) for of_groups in each)
    sides = [
        GroupRecord(group=group.name, received=exact_number(had), computed=exact_number(worked))
        for group, had, worked in zip(groups, *amounts, strict=True)
    ]
    names = (layer.name for own in stages for layer in own.graph.layers)
    apart = {name: spread(own) for name, (_, own) in zip(names, taken, strict=True) if own != first.shares}
    found = {"level": first.depth, "shares": spread(first.shares), "sides": sides}
    chosen = [choice for choice, _ in taken]
    return _split(stages, chosen, chain(*costs), **found, layer_shares=apart or None)


def _split(stages: Sequence[Branch], chosen: Sequence[Choice], costs: Iterable[float], **found: Any) -> Split:
    """Return the record of a group's split, with the choice and the cost of every layer of all its stages."""
    names = [layer.name for own in stages for layer in own.graph.layers]
    choices = dict(zip(names, chosen, strict=True))
    orders = {name: choice.order for name, choice in choices.items() if choice.order}
    own = dict(zip(names, map(exact_number, costs), strict=True))
    return Split.model_construct(
        group=stages[0].name,
        ways=len(found["shares"]),
        choices={name: dict(choice.degrees) for name, choice in choices.items()},
        numbering={name: [dict([digit]) for digit in order] for name, order in orders.items()} or None,
        costs=own,
        cost=exact_number(math.fsum(own.values())),
        **found,
    )


def stored_branch(
    plan: Plan, setting: Setting, name: str, machine: Machine, graph: PlanGraph, depth: int = 0
) -> Branch:
    """Return the node of a device group of a stored plan, without costs, in a setting but for its devices.

    The group has a machine and layers, below ``depth`` uneven splits.
    """
    own = [split for split in plan.splits if split.group == name]
    if not machine.groups:
        setting = replace(setting, machine=machine, array=tuple(split.ways for split in own))
        choices = tuple(tuple(split.choice(layer.name) for split in own) for layer in graph.layers)
        lane = Lane(graph, choices, setting, "" if name == WHOLE_ARRAY else name, depth)
        return Leaf(lane=lane)
    taken = [(own[0].choice(layer.name), own[0].shares_of(layer.name)) for layer in graph.layers]
    found = Branching(name=name, depth=depth, graph=graph, machine=machine, groups=machine.groups)
    found = found.decided(taken, own[0].shares)
    below = (stored_branch(plan, setting, of.name, of.machine, left, depth + 1) for of, left in found.sides())
    return replace(found, below=tuple(below))


def branch_of(plan: Plan, request: Resolved, graph: LayerGraph) -> Branch:
    """Return the node of a plan without stages on the machine of a request, if any, without costs; raises ``HardwareError``."""
    used = (request.machine or NO_MACHINE).using(plan.arrays or {})
    setting = setting_for(request, request.element_bytes(graph), cost_of(request))
    found = stored_branch(plan, setting, WHOLE_ARRAY, used, graph.nodes(plan.graph))
    return replace(found, microbatch=request.microbatch(graph))
