"""The tensors of an op: how loop dims index their axes, what devices add up of them, and what an op keeps and moves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from hypar.ops.windows import Window

IN_GROUP = "channels_in_group"
"""The name in tensors of the channels of each group: no consecutive channels, which a neighbour may cut."""

Role = Literal["activation", "weight", "parameter"]
"""A tensor that comes from another layer, a trained one that is contracted, or one that meets each element."""


class Projection(NamedTuple):
    """How loop dims index one axis of a tensor.

    Attributes:
        size: elements of the axis.
        dims: the loop dims, of several the first outermost; none for an axis that is read whole.
        window: the window along the axis; ``dims`` are then its output and its tap.
        first: the index of the loop dim at which the axis begins, as an input of a concatenation.
        turns: whether the places of the dims go round the axis, as round the rows of a table.
    """

    size: int
    dims: tuple[str, ...] = ()
    window: Window | None = None
    first: int = 0
    turns: bool = False


class Operand(NamedTuple):
    """A tensor of an op.

    Attributes:
        axes: how its axes are indexed, by their own names, in the order of its array.
        role: what it is.
    """

    axes: Mapping[str, Projection]
    role: Role = "activation"

    @classmethod
    def of(cls, axes: Axes, sizes: Mapping[str, int], role: Role = "activation") -> Operand:
        """Return an operand of some axes; ``sizes`` are those of the loop dims."""
        return cls({axis: _projection(axis, own, sizes) for axis, own in axes.items()}, role)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its axes."""
        return tuple(own.size for own in self.axes.values())

    @property
    def dims(self) -> tuple[str, ...]:
        """The loop dims that its axes are indexed by."""
        return tuple(dim for own in self.axes.values() for dim in own.dims)

    @property
    def windows(self) -> dict[str, Window]:
        """The window along each axis that has one."""
        return {axis: own.window for axis, own in self.axes.items() if own.window is not None}

    @property
    def names(self) -> dict[str, str]:
        """The axis that each loop dim indexes, but the taps of windows; the channels of a group have a name of their own."""
        found: dict[str, str] = {}
        for axis, own in self.axes.items():
            if "groups" in own.dims:
                found |= {"groups": axis, own.dims[-1]: IN_GROUP}
            elif own.dims:
                found[own.dims[0]] = axis
        return found


Axes = Mapping[str, Any]
"""The axes of a tensor by their names: the size of one that a loop dim of its name indexes, the loop dims, or more than that."""


def _projection(
    axis: str, own: int | str | tuple[str, ...] | Projection, sizes: Mapping[str, int]
) -> Projection:
    match own:
        case Projection():
            return own
        case int():
            return Projection(own, (axis,))
        case str():
            return Projection(sizes[own], (own,))
        case _:
            return Projection(math.prod(sizes[dim] for dim in own), own)


class Sum(NamedTuple):
    """A partial sum that devices add up on the way through a phase, over the loop dims that it does not keep.

    Attributes:
        dims: the loop dims that it keeps.
        backward: whether the backward phase needs it; one named as a parameter is its gradient.
        together: of some of these dims how many indices next to each other need the sums of each other.
    """

    dims: tuple[str, ...]
    backward: bool = False
    together: Mapping[str, int] = {}


class Saved(NamedTuple):
    """The memory that an op keeps from its forward phase until its backward phase.

    Attributes:
        input: whether it keeps its input.
        output: whether it keeps its output.
        elements: further numbers of the network's number format.
        mask_bytes: bytes of a mask or of indices.
        statistics: numbers of the network's number format, for all samples together.
    """

    input: bool = False
    output: bool = False
    elements: int = 0
    mask_bytes: int = 0
    statistics: int = 0


class Traffic(NamedTuple):
    """The elements that an op reads from memory and writes to it besides the tensors of a product, and its operations.

    Attributes:
        forward: elements that the forward phase reads and writes.
        backward: elements that the backward phase reads and writes.
        mask_bytes: bytes of a mask or of indices that the forward phase writes and the backward phase reads.
        flop: operations of the forward phase; the backward phase takes as many if it moves anything.
        contracted: of an op behind a layer, the dims of the layer's output that ops before it have summed over.
    """

    forward: float = 0
    backward: float = 0
    mask_bytes: float = 0
    flop: float = 0
    contracted: frozenset[str] = frozenset()
