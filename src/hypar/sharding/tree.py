"""What is decided: the tree of nodes that divide devices, with a choice for each layer and a share for each part.

A node divides devices into parts, each with a node of its own below it. An even level and an uneven split give every part
a shard of each layer; stages give every part whole layers. Each node on the way to a device is one of its coordinates.
"""

# Annotations are not postponed here: pydantic would parse the text of each one at every start.

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple, Union

from pydantic import Field

from hypar.errors import field_name, shown
from hypar.files.validation import Record
from hypar.sharding.placement import ALONE, WHOLE, Choice, digits_of, grid, numbered

Amount = Annotated[int | float, Field(ge=0, le=1e200)]
Degrees = dict[str, Annotated[int, Field(ge=1)]]
Digit = Annotated[dict[str, Annotated[int, Field(ge=2)]], Field(min_length=1, max_length=1)]
"""A run of digits of a device's number: the dim that it divides, and its degree."""

Share = Annotated[float, Field(ge=0, le=1)]

WHOLE_ARRAY = "all"
"""The group of all devices."""

MOST_DEVICES = 2**20
"""Devices of an array at most: 20 two-way levels."""

MOST_NODES = 36
"""Nodes above a split, at most: as many as 20 two-way levels, and 16 nested uneven splits."""


def fault(place: str, found: Any, allowed: str) -> str:
    """Return what is wrong at a place of a plan."""
    return f"{place}: found {shown(found)}; allowed: {allowed}"


class GroupRecord(Record):
    """The costs of one device group of an uneven split, in the cost's unit.

    Attributes:
        group: name of the group.
        received: cost of the elements that it receives from the other groups.
        computed: cost of its computation, on all its devices together.
    """

    group: str
    received: Amount
    computed: Amount


class Split(Record):
    """What a level or an uneven split decides: the choice of every layer, with its cost.

    Attributes:
        level: number of the level, 0 for the outermost.
        group: name of the groups that are split; ``all`` on an array of identical devices.
        ways: number of groups that result.
        shares: the share of each of them, summing to 1; one without a share is idle.
        choices: for each layer the degree of each dim that is divided; none for a join that every device computes
            whole, batch 1 for a layer that one device computes.
        numbering: for each layer with several dims the digits of its devices' numbers, outermost first; None where all
            layers number their devices alike, through the dims of their choices.
        costs: for each layer the cost of it and of the tensors that it reads, in all groups together.
        cost: their sum.
        sides: for an uneven split, its device groups; None for an even split.
        layer_shares: for an uneven split, the shares of layers that differ from ``shares``.
    """

    level: Annotated[int, Field(ge=0, le=MOST_NODES)]
    group: str
    ways: Annotated[int, Field(ge=2)]
    shares: list[Share]
    choices: Annotated[dict[str, Degrees], Field(min_length=1)]
    numbering: dict[str, list[Digit]] | None = None
    costs: dict[str, Amount]
    cost: Amount
    sides: list[GroupRecord] | None = None
    layer_shares: Annotated[dict[str, list[Share]], Field(min_length=1)] | None = None

    def faults(self) -> Iterator[str]:
        """Yield what is wrong with its choices and shares, which are to fit its ways."""
        if not self._sum_to_one(self.shares):
            yield fault(self._at("shares"), self.shares, f"{self.ways} that sum to 1")
        for layer, shares in (self.layer_shares or {}).items():
            if layer not in self.choices or not self._sum_to_one(shares):
                yield fault(self._at("layer_shares", layer), shares, f"{self.ways} that sum to 1, of a layer")
        if (self.sides is None and self.layer_shares) or len(self.sides or self.shares) != self.ways:
            yield fault(self._at("sides"), len(self.sides or ()), "one for each group of an uneven split")
        # Layers share few different choices, of which the first layer is named.
        each = {tuple(degrees.items()): layer for layer, degrees in reversed(self.choices.items())}
        for own, layer in reversed(each.items()):
            degrees = [degree for _, degree in own]
            if self.sides is None:
                allowed = f"degrees whose product divides {self.ways} ways; batch 1 for one"
                fits = (1 not in degrees or own == ALONE.degrees) and not self.ways % math.prod(degrees)
            else:
                allowed = f"one dim over all {self.ways} groups of an uneven split"
                fits = degrees in ([], [self.ways])
            if not fits:
                yield fault(self._at("choices", layer), dict(own), allowed)
        yield from () if self.numbering is None else self._numbering_faults(self.numbering)

    def _sum_to_one(self, shares: Sequence[float]) -> bool:
        return len(shares) == self.ways and abs(math.fsum(shares) - 1) <= 1e-9

    def _at(self, *place: str) -> str:
        return field_name(("splits", self.level, *place))

    def _numbering_faults(self, numbering: dict[str, list[Digit]]) -> Iterator[str]:
        """Yield where numberings have not the degrees of their layers' choices, or no common digits."""
        for layer, digits in numbering.items():
            place = self._at("numbering", layer)
            if layer not in self.choices or self.sides is not None:
                yield fault(place, layer, "layers that have a choice at an even split")
            degrees, order = self.choice(layer)
            same = order and dict(degrees) == self.choices[layer]
            if not same or math.prod(degree for _, degree in order) != self.ways:
                product = f"a product of {self.ways} with copies"
                yield fault(place, digits, f"several dims, with the degrees of its choice and {product}")
        try:
            digits_of([self.choice(layer) for layer in self.choices], self.ways)
        except ValueError as error:
            yield f"{self._at('numbering')}: {error}"

    def shares_of(self, layer: str) -> tuple[float, ...]:
        """Return each group's share of a layer."""
        return tuple((self.layer_shares or {}).get(layer, self.shares))

    def choice(self, layer: str) -> Choice:
        """Return the choice of a layer, with its numbering."""
        order = [pair for digit in (self.numbering or {}).get(layer, ()) for pair in digit.items()]
        degrees = self.choices[layer]
        return numbered(order) if order else grid(degrees) if degrees else WHOLE

    def dim(self, layer: str) -> str | None:
        """Return the dim in which a layer is cut, several joined by ``*``; None if it is not cut."""
        return "*".join(self.choice(layer).divided) or None


class Device(NamedTuple):
    """A single device, the end of each branch."""


class Level(NamedTuple):
    """A level: an even one of identical devices, or an uneven split over device groups.

    Attributes:
        split: the choice of every layer, and the shares of device groups.
        below: the node of each device group, None for an idle one; of an even level one for all parts.
    """

    split: Split
    below: "tuple[Node | None, ...]"


class Stages(NamedTuple):
    """Stages: each part works for its own layers alone.

    Attributes:
        layers: the layers of each stage.
        groups: the device group of each stage; None on identical devices.
        below: the node of each stage; one for all stages of a group.
    """

    layers: tuple[frozenset[str], ...]
    groups: tuple[str | None, ...]
    below: "tuple[Node, ...]"


Node = Union[Device, Level, Stages]  # noqa: UP007 (a text above stands for it)


def tree_of(
    splits: Sequence[Split], stages: Sequence[tuple[str | None, Sequence[str]]] = (), outside: int = 0
) -> Node:
    """Return the tree of splits that are listed, a group's before its subgroups'.

    Args:
        splits: the splits.
        stages: the device group and the layers of each stage; the group is None on identical devices.
        outside: number of nodes outside the stages.

    Raises:
        ValueError: they form no tree.
    """
    for split in splits:
        for found in split.faults():
            raise ValueError(found)
    reader = _Reader([*reversed(splits)], stages, outside)
    root = reader.node(WHOLE_ARRAY, 0)
    if reader.left:
        number, split = len(splits) - len(reader.left), reader.left[-1]
        found = f"splits[{number}]: found level {split.level} of group {shown(split.group)}"
        allowed = "the next level of a group at work, a group's before its subgroups'"
        raise ValueError(f"{found}; allowed: {allowed}")
    names = [group.name for group in groups_of(root)]
    names += [split.group for split in splits if split.sides is not None]
    if len({*names}) < len(names):
        raise ValueError(fault("splits", names, "each group once"))
    return root


class _Reader(NamedTuple):
    """The reading of listed splits as a tree; ``left`` has those that are in no node yet, the next one last."""

    left: list[Split]
    stages: Sequence[tuple[str | None, Sequence[str]]]
    outside: int

    def node(self, name: str, depth: int) -> Node:
        """Return the node of a group below ``depth`` others, stages not counted."""
        if not self.stages or depth != self.outside:
            return self.inside(name, depth)
        groups, layers = zip(*self.stages, strict=True)
        each = {group: self.inside(group or name, depth) for group in dict.fromkeys(groups)}
        return Stages(tuple(map(frozenset, layers)), groups, tuple(each[group] for group in groups))

    def inside(self, name: str, depth: int) -> Node:
        """Return the node of a group without the stages at its place."""
        if not self.left or (name, depth) != (self.left[-1].group, self.left[-1].level):
            return Device()
        split = self.left.pop()
        if split.sides is None:
            return Level(split, (self.node(name, depth + 1),))
        sides = zip(split.sides, split.shares, strict=True)
        below = [self.node(side.group, depth + 1) if share else None for side, share in sides]
        return Level(split, tuple(below))


def splits_of(node: Node | None) -> Iterator[Split]:
    """Yield the splits of a tree, each once, a group's before its subgroups'."""
    if isinstance(node, Level):
        yield node.split
    for part in {id(part): part for part in getattr(node, "below", ())}.values():
        yield from splits_of(part)


class Group(NamedTuple):
    """A group of identical devices of a plan.

    Attributes:
        name: its name; ``all`` for the only group.
        above: the uneven splits above, outermost first, each with the index of the group that contains this one.
        splits: its own splits, outermost first.
        root: the group at the root of its tree: ``all``, or with stages on device groups the one that holds its stages.
    """

    name: str
    above: tuple[tuple[Split, int], ...]
    splits: tuple[Split, ...]
    root: str = WHOLE_ARRAY

    @property
    def levels(self) -> tuple[Split, ...]:
        """Return the splits above and its own, outermost first."""
        return (*(split for split, _ in self.above), *self.splits)

    @property
    def array(self) -> tuple[int, ...]:
        """Return the ways of each of its own levels."""
        return tuple(split.ways for split in self.splits)

    @property
    def idle(self) -> bool:
        """Return whether it has no share of the work."""
        return any(not split.shares[group] for split, group in self.above)


def groups_of(node: Node | None, own: Group | None = None) -> Iterator[Group]:
    """Yield the groups of identical devices of a tree, in the order of the uneven splits.

    Args:
        node: the tree, or a node of it; None for an idle group.
        own: the group at the node, with the splits above; the group of all devices if not given.
    """
    own = own or Group(WHOLE_ARRAY, (), ())
    if isinstance(node, Level) and node.split.sides is None:
        yield from groups_of(node.below[0], own._replace(splits=(*own.splits, node.split)))
    elif isinstance(node, Level):
        for index, (side, below) in enumerate(zip(node.split.sides or (), node.below, strict=True)):
            yield from groups_of(below, Group(side.group, (*own.above, (node.split, index)), (), own.root))
    elif isinstance(node, Stages):
        for group, below in dict(zip(node.groups, node.below, strict=True)).items():
            yield from groups_of(below, own if group is None else Group(group, (), (), group))
    else:
        yield own
