"""The steps of a program.

Steps name the arrays that they read and write; an array is written once. Every array is as large as its tensor on
every device, of which a device has the elements of its holding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hypar.program.counting import added, copied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Tie
    from hypar.ops.run import Piece
    from hypar.program.holding import Holding
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
        return copied(places, self.have, self.need)


@dataclass(frozen=True, eq=False, slots=True)
class Add(Copy):
    """The terms that devices have are summed at an owner of each element, and sums are handed to those who need them.

    Attributes:
        copies: which copy of its terms each device has: each copy is summed by itself.
    """

    copies: Numbers

    def counted(self, places: Places) -> Numbers:
        """Return the elements that each level moves."""
        return added(places, self.have, self.need, self.copies)


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


def arrays(step: Step) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the arrays that a step reads, and those that it writes."""
    if isinstance(step, Compute):
        return (*step.reads.values(),), (*step.writes.values(),)
    return ((step.gradient,), ()) if isinstance(step, Update) else ((step.source,), (step.target,))


@dataclass(frozen=True, eq=False, kw_only=True)
class Program:
    """A training step on the devices of a plan.

    Attributes:
        graph: the network.
        places: the devices.
        steps: the steps in order.
    """

    graph: LayerGraph
    places: Places
    steps: tuple[Step, ...]

    @property
    def transfers(self) -> dict[int, Copy]:
        """The steps that may move elements, by their number among all steps."""
        return {number: step for number, step in enumerate(self.steps) if isinstance(step, Copy)}

    @property
    def updates(self) -> list[Update]:
        """The updates of trained tensors."""
        return [step for step in self.steps if isinstance(step, Update)]

    @property
    def accumulated(self) -> set[str]:
        """The arrays that microbatches add to: the terms of gradients, and the gradients that need no addition."""
        each = [arrays(step) for step in self.steps if exchanges_gradients(step) or isinstance(step, Update)]
        written = {name for _, writes in each for name in writes}
        return {name for reads, _ in each for name in reads} - written
