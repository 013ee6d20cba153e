"""The tree planned for a heterogeneous machine: uneven splits, and groups of identical devices below them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import accumulate, pairwise, repeat
from typing import TYPE_CHECKING, Any

from hypar.network.nodes import Content
from hypar.planning.records import Leaf
from hypar.schedule.pieces import PHASE, crossing, elements_on, excess
from hypar.sharding.amounts.above import outermost
from hypar.sharding.conventions import MOVED, PAPER
from hypar.sharding.levels import TINY, divided_einsum, divided_size, whole_ends
from hypar.sharding.placement import dim_of, working

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hypar.machine.machine import DeviceGroup, Machine
    from hypar.machine.setting import Setting
    from hypar.network.nodes import PlanGraph, PlanNode, Tensor
    from hypar.schedule.lanes import Ends, Lane, Lanes
    from hypar.schedule.pieces import Crossing, Receiver, Rounds
    from hypar.sharding.amounts.above import Amount, State
    from hypar.sharding.amounts.factors import Taken
    from hypar.sharding.amounts.windows import Shares
    from hypar.sharding.placement import Choice, Options


INSIDE = {"forward": "output", "backward": "input", PHASE: "weight"}
"""The tensor of a layer that is added up in each phase."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Branching:
    """An uneven split with its subtree; before it is decided only the first four attributes are known.

    A group without a share of any layer is idle; of the others all attributes are in the machine's order.

    Attributes:
        name: the name of the group that it divides.
        depth: the number of uneven splits above it.
        graph: the layers, with the sizes that these leave.
        machine: the machine whose device groups it divides.
        at_work: the indices of the groups that work.
        taken: the choice of each layer, with the shares of these groups; equal shares are one object.
        shares: the common shares of these groups; single layers may have others.
        received: the cost for each group to receive each layer's tensors, ``[groups][layers]``.
        computed: the cost for each group to compute each layer, ``[groups][layers]``.
        below: the subtree of each group.
        slowest: whether the cost is that of the slowest group; otherwise the sum over all groups.
        whole: whether the shares are of whole elements, as a run has them.
    """

    name: str
    depth: int
    graph: PlanGraph
    machine: Machine
    at_work: tuple[int, ...] = ()
    taken: tuple[Taken, ...] = ()
    shares: tuple[float, ...] = ()
    received: tuple[tuple[float, ...], ...] = ()
    computed: tuple[tuple[float, ...], ...] = ()
    below: tuple[Branch, ...] = ()
    slowest: bool = True
    whole: bool = False

    @property
    def ends(self) -> tuple[float, ...]:
        """The cost of each group with its subtree."""
        found = []
        for received, computed, below in zip(self.received, self.computed, self.below, strict=True):
            # A single device has no level at which its computation would be counted.
            alone = isinstance(below, Leaf) and not below.levels
            found.append(math.fsum(received) + (math.fsum(computed) if alone else below.cost))
        return tuple(found)

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
    def groups(self) -> list[DeviceGroup]:
        """The groups that work."""
        return [self.machine.groups[group] for group in self.at_work]

    def decided(self, at_work: Sequence[int], taken: Sequence[Taken], shares: Sequence[float]) -> Branching:
        """Return the split with choices and shares of some groups, of which those without any share are left out."""
        some = [at for at in range(len(at_work)) if any(own[at] for _, own in taken)]
        kept: dict[Shares, Shares] = {}
        for _, own in taken:
            kept.setdefault(tuple(own), tuple([own[at] for at in some]))
        return replace(
            self,
            at_work=tuple(at_work[at] for at in some),
            taken=tuple((choice, kept[tuple(own)]) for choice, own in taken),
            shares=tuple(shares[at] for at in some),
        )

    def states(self, entered: State | None) -> list[State | None]:
        """Return the state below the split of each group, below a state; None by ``paper``."""
        if entered is None:
            return [None] * len(self.at_work)
        return [*entered.crossing(self.graph, self.taken)[-1]]

    def graph_of(self, group: int, tensors: tuple[Tensor, ...] | None = None) -> PlanGraph:
        """Return the layers with the sizes that a group's shares leave, and their tensors, or others that they read."""
        graph = self.graph if tensors is None else self.graph._replace(tensors=tensors)
        choices, shares = zip(*self.taken, strict=True)
        return graph_of_group(graph, choices, [own[group] for own in shares], integral=self.whole)

    def left(self, above: Ends) -> Iterator[Ends]:
        """Yield for each group its shares at the splits above and at this one."""
        each = zip(self.graph.layers, self.taken, above or repeat(()), strict=False)
        rows = [
            [(*own, (dim_of(taken[0]), at)) for at in _whole_ends(layer, *taken)]
            for layer, taken, own in each
        ]
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
        found: list[Receiver] = []
        for group, below in zip(self.groups, self.below, strict=True):
            arrays = [leaf.lane.setting.array for leaf in below.leaves()]
            lanes = tuple(range(first, first := first + len(arrays)))
            found.append((group, lanes, sum(map(math.prod, arrays))))
        return found

    def lanes(self, above: Ends = ()) -> Lanes:
        """Return the groups that work, and the transfers between them, outer splits first; below shares at the splits above."""
        counted = self.setting.convention
        own, crossings = self._counted(counted, above)
        if not self.integral:
            return own, crossings
        # A run adds up activations at once where ``paper`` counts them.
        ran = cache(partial(self.in_whole_elements()._counted, MOVED if counted == PAPER else counted, above))
        return [lane._replace(ran=(number, ran)) for number, lane in enumerate(own)], crossings

    def _counted(self, convention: str, above: Ends) -> Lanes:
        """Return the groups that work, and the transfers between them, counted by a convention."""
        lanes: list[Lane] = []
        crossings = list(_crossings(self, lanes, state_above(self.graph, convention), above))
        return lanes, crossings

    def reached(
        self, above: Ends = (), tensors: tuple[Tensor, ...] = ()
    ) -> Iterator[tuple[Lane, tuple[Tensor, ...]]]:
        """Yield the lanes of the groups that work, with their shares at all uneven splits, and what each reads of some tensors."""
        for at, (below, ends) in enumerate(zip(self.below, self.left(above), strict=True)):
            yield from below.reached(ends, self.graph_of(at, tensors).tensors if tensors else ())

    def summed(self) -> Branching:
        """Return the tree with the costs of all groups summed."""
        below = tuple(one.summed() if isinstance(one, Branching) else one for one in self.below)
        return replace(self, slowest=False, below=below)

    def of(self, graph: PlanGraph) -> Branching:
        """Return the same choices and shares for layers of other sizes, with the costs unchanged."""
        return self._with(lambda below: below, graph=graph)

    def _with(self, change: Callable[[Branch], Branch], **fields: Any) -> Branching:
        """Return the split with other fields, and with a change of the groups below, of the sizes that these leave."""
        other = replace(self, **fields)
        return other.grown(lambda at, graph: change(self.below[at].of(graph)))

    def grown(self, below: Callable[[int, PlanGraph], Branch]) -> Branching:
        """Return the split with the subtree of each group, by its place among these and its layers."""
        return replace(self, below=tuple(below(at, self.graph_of(at)) for at in range(len(self.at_work))))

    @property
    def integral(self) -> bool:
        """Whether the sizes that it divides are whole numbers, as not below a split whose shares are sought."""
        return all(isinstance(size, int) for layer in self.graph.layers for size in layer.nest.sizes.values())

    def in_whole_elements(self) -> Branching:
        """Return the same choices with shares of whole elements, as devices hold them, with the costs unchanged."""
        if not self.integral:
            return self
        taken = []
        for layer, (choice, shares) in zip(self.graph.layers, self.taken, strict=True):
            left = [end - start for start, end in _whole_ends(layer, choice, shares)]
            # A group without an element still has terms, which are zero.
            own = tuple([max(one, TINY) if share else 0.0 for one, share in zip(left, shares, strict=True)])
            # All of an empty layer are whole shares, which sum to more than one.
            divided = dim_of(choice) is not None and math.fsum(left) < 1 + TINY
            taken.append((choice, own if divided else shares))
        return self._with(lambda below: below.in_whole_elements(), taken=tuple(taken), whole=True)

    def with_share(self, group: int, share: float) -> Branching:
        """Return the same choices where a group has a share of every layer and the others divide the rest as before."""
        rest = math.fsum(own for other, own in enumerate(self.shares) if other != group)
        scale = (1 - share) / rest if rest else 0.0
        shares = tuple(share if other == group else scale * own for other, own in enumerate(self.shares))
        taken = tuple((choice, shares) for choice, _ in self.taken)
        return self._with(lambda below: below, shares=shares, taken=taken)

    def taking(self, chosen: Iterator[Options]) -> Branching:
        """Return the split with other choices at the same shares, then those of the groups below, with the costs unchanged."""
        taken = tuple((next(chosen)[0], shares) for _, shares in self.taken)
        return self._with(lambda below: below.taking(chosen), taken=taken)


Branch = Leaf | Branching


def _whole_ends(layer: PlanNode, choice: Choice, shares: Sequence[float]) -> list[tuple[float, float]]:
    """Return the ends of each group's share of a layer, which are those of whole elements, as fractions."""
    dim = dim_of(choice)
    size = 0 if dim is None else layer.nest.sizes[dim]
    if not size:
        return [(0.0, 1.0)] * len(shares)
    given = [*pairwise(accumulate(shares, initial=0.0))]
    ends = iter(whole_ends(size, [(start, end) for start, end in given if end > start]))
    own = [next(ends) if end > start else (0, 0) for start, end in given]
    return [(start / size, end / size) for start, end in own]


def graph_of_group(
    graph: PlanGraph, choices: Sequence[Choice], shares: Sequence[float], *, integral: bool = False
) -> PlanGraph:
    """Return the network that a device group with given shares computes.

    Divided sizes are real numbers unless the shares are of whole elements. Equal layers with equal shares have
    one nest object, also in different calls, so that what is cached by nest is found again. Tensors that other layers
    read are as they are.

    Args:
        graph: the network before the split.
        choices: the choice of each layer at the split.
        shares: the group's share of each layer.
        integral: whether the shares are of whole elements.
    """
    layers, tensors = [], []
    for layer, choice, share in zip(graph.layers, choices, shares, strict=True):
        dim, nest = dim_of(choice), layer.nest
        own = nest if dim is None else divided_einsum(nest, dim, share, integral=integral)
        made = share if dim in nest.names["output"] else 1
        layers.append(layer.resized(own, divided_size(layer.output_elements, made, integral=integral)))
    for tensor in graph.tensors:
        end, content = tensor.consumer, tensor.content
        dim = dim_of(choices[end]) if end < len(layers) else None
        name = None if dim is None else graph.layers[end].nest.names.get(tensor.operand, {}).get(dim)
        if name is not None:
            part = partial(divided_size, share=shares[end], integral=integral)
            shape = tuple((own, part(size) if own == name else size) for own, size in content.shape)
            content = Content(part(content.elements), content.contracted, shape)
        tensors.append(tensor if name is None else replace(tensor, content=content))
    return graph._replace(layers=tuple(layers), tensors=tuple(tensors))


def state_above(graph: PlanGraph, convention: str) -> State | None:
    """Return the state above all uneven splits; None by ``paper``."""
    if convention == PAPER:
        return None
    return outermost(graph, convention, tied=False)


def _crossings(branch: Branch, lanes: list[Lane], entered: State | None, ends: Ends) -> Iterator[Crossing]:
    """Yield the crossings of a subtree, and append its groups to ``lanes``."""
    if isinstance(branch, Leaf):
        lanes.append(branch.lane._replace(number=len(lanes), entered=entered, ends=ends))
        return
    receivers = branch.receivers(len(lanes))
    inner: list[Crossing] = []
    above = entered or outermost(branch.graph, PAPER, tied=False)
    of_layers, of_tensors, below_each = above.crossing(branch.graph, branch.taken)
    states = repeat(None) if entered is None else below_each
    for below, state, own in zip(branch.below, states, branch.left(ends), strict=False):
        inner += _crossings(below, lanes, state, own)
    groups = [[lanes[lane] for lane in own] for _, own, _ in receivers]

    @cache
    def fuller(layer: int, tensor: str) -> list[tuple[float, ...]]:
        return [_fuller(own, layer, tensor) for own in groups]

    def rounds(amounts: tuple[Amount, ...], ends: Mapping[str, tuple[int, str]]) -> Rounds:
        """Return the transfers of amounts, which lanes share by what they read, or have made."""
        size, every = (
            branch.setting.element_bytes,
            ((amount, fuller(*ends[amount.phase])) for amount in amounts),
        )
        found = (crossing(own, receivers, branch.depth, size, more) for own, more in every)
        return tuple(filter(None, found))

    inside = [
        rounds(own, {phase: (layer, tensor) for phase, tensor in INSIDE.items()})
        for layer, own in enumerate(of_layers)
    ]
    between = [
        rounds(own, {"forward": (tensor.consumer, "input"), "backward": (tensor.producer, "output")})
        for tensor, own in zip(branch.graph.tensors, of_tensors, strict=True)
    ]
    yield tuple(inside), tuple(between)
    yield from inner


def _fuller(lanes: Sequence[Lane], layer: int, tensor: str) -> tuple[float, ...]:
    """Return how much more of a tensor the fullest device of each lane has than all devices of its group on average."""
    counted, fullest, devices = [], [], 0
    for lane in lanes:
        nest, chosen = lane.graph.layers[layer].nest, lane.choices[layer]
        each = elements_on(nest, tensor, chosen)
        counted.append(each * working(chosen, lane.setting.array)[-1])
        fullest.append(each * excess(nest, chosen)[tensor])
        devices += lane.devices
    average = math.fsum(counted) / devices
    return tuple([own / average if average else 1.0 for own in fullest])
