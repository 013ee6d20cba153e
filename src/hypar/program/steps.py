"""The steps of a program, and the elements that its transfers move at each level, counted from who holds and who needs them.

Steps name the arrays that they read and write; an array is written once. Every array is as large as its tensor on
every device, of which a device has the elements of its holding.

Every element enters a part of a level from outside at most once, and is handed on inside. The elements that are
received at level h or further out are ``R(h)``, the sum over the parts of level h of what they need and do not have;
what level h itself moves is ``R(h) - R(h - 1)``. A tensor is counted on a small grid of classes of indices, each weighted by
its elements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.program.holding import by_content, cells

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Sized

    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Tie
    from hypar.ops.run import Piece
    from hypar.program.fragments import Fragment
    from hypar.program.holding import Holding, Members
    from hypar.program.layout import Numbers, Places


class Item(NamedTuple):
    """What a transfer is for.

    Attributes:
        layer: name of the layer inside which it happens, or that reads the tensor.
        maker: name of the layer that makes the tensor; None inside a layer.
        phase: ``forward``, ``backward`` or ``gradient``.
        tensor: ``input``, ``output``, ``weight``, ``bias`` or ``statistics``.
    """

    layer: str
    maker: str | None
    phase: str
    tensor: str


@dataclass(frozen=True, eq=False, slots=True)
class Copy:
    """Every device gets the elements that it needs and does not have.

    Attributes:
        source: the array that is read.
        target: the array that is written.
        have: who has what of the source.
        need: who gets what of the target.
        item: what it is for.
    """

    source: str
    target: str
    have: Holding
    need: Holding
    item: Item

    def counted(self, places: Places) -> Numbers:
        """Return the elements that each level moves."""
        return counted(places, self.have, self.need)


@dataclass(frozen=True, eq=False, slots=True)
class Add(Copy):
    """The terms that devices have are summed at an owner of each element, and sums are handed to those who need them.

    Attributes:
        copies: which copy of its terms each device has: each copy is summed by itself.
    """

    copies: Numbers

    def counted(self, places: Places) -> Numbers:
        """Return the elements that each level moves."""
        return counted(places, self.have, self.need, self.copies)


class Return(Add):
    """The terms that devices have go the way back of what rests: to the nearest device that needs them, where they are terms again."""

    def counted(self, places: Places) -> Numbers:
        """Return the elements that each level moves: as many as a copy the other way."""
        return counted(places, self.need, self.have)


@dataclass(frozen=True, eq=False, slots=True)
class Compute:
    """Every device computes on its own piece, and moves nothing.

    Attributes:
        kind: ``forward``, ``finish`` (the bias), ``statistics`` (the terms of a phase's sums), ``backward``, ``loss``, or a sum
            that each device takes of what it has: ``error`` (what all readers of a tensor send back), ``tied`` (the terms of
            all layers that use a weight).
        layer: name of the layer.
        pieces: the piece of each device; None for a device that computes nothing.
        reads: the arrays that it reads, by their role.
        writes: the arrays that it writes, by their role.
        due: for a kind that reads what not all devices have, who has what of each array, by its role.
    """

    kind: str
    layer: str
    pieces: tuple[Piece | None, ...]
    reads: Mapping[str, str]
    writes: Mapping[str, str]
    due: Mapping[str, Holding] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class Update:
    """Every device updates its own elements of a trained tensor.

    Attributes:
        layer: name of the layer.
        parameter: name of the tensor, as ``weight``.
        gradient: the array of its summed gradient.
        holding: who holds what of it.
        ties: the other layers that use the tensor.
    """

    layer: str
    parameter: str
    gradient: str
    holding: Holding
    ties: tuple[Tie, ...] = ()


Step = Copy | Compute | Update


def exchanges_gradients(step: Step) -> bool:
    """Return whether a step runs once, behind all microbatches."""
    return isinstance(step, Copy) and step.item.phase == "gradient"


@dataclass(frozen=True, eq=False, kw_only=True)
class Program:
    """A training step on the devices of a plan.

    Attributes:
        graph: the network.
        places: the devices.
        steps: the steps in order.
        fragments: the fragment of each layer, by name.
    """

    graph: LayerGraph
    places: Places
    steps: tuple[Step, ...]
    fragments: Mapping[str, Fragment]

    @property
    def transfers(self) -> dict[int, Copy]:
        """The steps that may move elements, by their number among all steps."""
        return {number: step for number, step in enumerate(self.steps) if isinstance(step, Copy)}

    @property
    def updates(self) -> list[Update]:
        """The updates of trained tensors."""
        return [step for step in self.steps if isinstance(step, Update)]


# Counts


@by_content
def counted(places: Places, have: Holding, need: Holding, copies: Numbers | None = None) -> Numbers:
    """Return the elements that each level moves so that every device gets what it needs, ``[levels]``.

    Where devices have terms, these are summed at one owner of each element first: a device that needs it, as near as possible
    to one that has a term of it. A part adds up its own terms before it sends one sum out.

    Args:
        places: the devices.
        have: the elements that each device has, or has a term of.
        need: the elements that each device needs, or whose sums it needs.
        copies: of terms, the copy that each device has; each copy is summed by itself.
    """
    (having, needing), weights = cells(have, need)
    if copies is None:
        entering = [(needs & ~has).sum(axis=0) for has, needs in _by_part(places, having, needing)]
        return np.diff([(own * weights).sum() for own in entering[::-1]], prepend=0)
    total = np.zeros(len(places.parts), np.int64)
    for mine, gets in each_copy(copies, weights.ndim):
        wanted = needing & gets & (having & mine).any(axis=0)
        # Terms leave all parts that have some and sums enter all that want them, but for that of the owner.
        crossing = [
            has.sum(axis=0) - (has & wants).any(axis=0) + wants.sum(axis=0) - wants.any(axis=0)
            for has, wants in _by_part(places, having & mine & wanted.any(axis=0), wanted)
        ]
        total += np.diff([(own * weights).sum() for own in crossing[::-1]], prepend=0)
    return total


def _by_part(places: Places, *each: Members) -> Iterator[list[Members]]:
    """Yield for each level, the innermost first, what each part has of some holdings, ``[parts, classes of each dim]``."""
    of: Sequence[Sized] = places.members(len(places.parts) - 1)
    found = [own[np.concatenate(places.members(len(places.parts) - 1))] for own in each]
    for level in reversed(range(len(places.parts))):
        starts = np.cumsum([0, *map(len, of[:-1])])
        found = [np.logical_or.reduceat(own, starts, axis=0) for own in found]
        yield found
        of = [parts for _, parts in places.inside[level]]


def each_copy(copies: Numbers, dims: int) -> Iterator[tuple[Members, Members]]:
    """Yield for each copy of some terms who has it, and who gets its sums, ``[devices, *1 for each dim]``.

    Those that have no copy get the sums of the first.
    """
    copies = copies.reshape(-1, *[1] * dims)
    for copy in range(int(copies.max()) + 1):
        own = copies == copy
        yield own, own | ((copies < 0) & (copy == 0))
