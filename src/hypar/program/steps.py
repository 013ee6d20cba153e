"""The steps of a program: what every device computes, gets of others, and updates.

Steps name the arrays that they read and write; an array is written once. Every array is as large as its tensor on
every device, of which a device has the elements of its holding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from hypar.network.layer import Tie
    from hypar.ops.run import Piece
    from hypar.program.holding import Holding


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


@dataclass(frozen=True, eq=False)
class Transfer:
    """What devices get of each other.

    By ``copy`` every device gets the elements that it needs and does not have. By ``add`` the terms that devices have are summed at an
    owner of each element, and sums are handed to those who need them. By ``return`` terms go the way back of what rests: to the nearest
    device that needs them, where they are terms again.

    Attributes:
        kind: what it does.
        have: who has what of its source.
        need: who gets what of its target.
        copies: whose terms are summed together, ``Copies``; None of what is copied.
        terms: whether several devices have terms of an element.
    """

    kind: Literal["copy", "add", "return"]
    have: Holding
    need: Holding
    copies: Any = None
    terms: bool = False

    @cached_property
    def moves(self) -> bool:
        """Whether it is needed: terms are to be summed, or devices lack something."""
        have = self.have if self.copies is None else self.have.on(self.copies.number >= 0)
        return self.terms or not self.need.within(have)

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        """Whether each device has what it needs, ``[*devices]``; sums that take the place of terms are there."""
        found = ~self.need.lacks(self.have) & (self.need.elements > 0)
        return found if self.copies is None else found | (self.need.elements >= self.have.elements)


@dataclass(frozen=True, eq=False, slots=True)
class Move:
    """Devices get of each other what they need of an array.

    Attributes:
        source: the array that is read.
        target: the array that is written.
        item: what it is for.
        transfer: the transfer.
    """

    source: str
    target: str
    item: Item
    transfer: Transfer


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


Step = Move | Compute | Update


def exchanges_gradients(step: Step) -> bool:
    """Return whether a step runs once, behind all microbatches."""
    return isinstance(step, Move) and step.item.phase == "gradient"
