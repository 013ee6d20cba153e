"""What a lowering knows while it walks a network: the tensors that exist, who has them, and the steps so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hypar.program.counting import lacking, overlapping
from hypar.program.steps import Add, Copy, Item, Step, Update
from hypar.program.tables import indices_of

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer, Tie
    from hypar.ops.nest import Nest
    from hypar.program.cuts import Cuts
    from hypar.program.holding import Holding, Members, Piece
    from hypar.program.places import Numbers, Places

SPATIAL = ("height", "width")
AXES = ("batch", "channels", *SPATIAL)
"""The dims of an image and of a vector."""


def axes_of(layer: Layer) -> tuple[str, ...]:
    """Return the dims of a layer's output, in the order of its array."""
    return ("batch", *layer.shape)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Made:
    """The output of a layer.

    Attributes:
        array: the array of its elements.
        holding: who has what of it.
        cuts: the cuts after which later ops divide an image.
    """

    array: str
    holding: Holding
    cuts: Cuts


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Work:
    """What the forward pass of a layer leaves to its backward pass.

    Attributes:
        dims: for each dim of the op the indices that each device computes, ``[devices, size]``.
        needs: for each input, who has what of it.
        operands: the arrays of the inputs.
        output: who computes what of the output.
        copies: which copy of its terms each device has, where the op leaves terms.
        reads: arrays that the backward pass reads as well, by their role.
    """

    dims: Mapping[str, Members]
    needs: tuple[Holding, ...]
    operands: tuple[str, ...]
    output: Holding
    copies: Numbers
    reads: Mapping[str, str]

    @property
    def pieces(self) -> tuple[Piece | None, ...]:
        """The piece of each device; None where nothing is to compute."""
        return pieces_of(self.dims)


def pieces_of(dims: Mapping[str, Members], made: Container[str] | None = None) -> tuple[Piece | None, ...]:
    """Return the indices of each dim for each device; None for a device that has none of some dim, or of some that is made."""
    rows = zip(*(indices_of(own) for own in dims.values()), strict=True)
    pieces = [dict(zip(dims, row, strict=True)) for row in rows]
    return tuple(
        own if all(len(at) for dim, at in own.items() if made is None or dim in made) else None
        for own in pieces
    )


class Reader(NamedTuple):
    """The planned layer that reads a tensor.

    Attributes:
        layer: the layer.
        operand: the operand as which it reads the tensor.
        cuts: its cuts.
    """

    layer: Layer
    operand: int
    cuts: Cuts


class Used(NamedTuple):
    """The terms that a layer has of the gradient of a weight that several layers use.

    Attributes:
        tie: the tie; None for the layer whose weight it is.
        array: the array of the terms, in the layer's own order of the dims.
        holding: who has what of the weight for the layer.
        copies: which copy of its terms each device has.
    """

    tie: Tie | None
    array: str
    holding: Holding
    copies: Numbers

    @property
    def role(self) -> str:
        """The layer that uses the weight of another; empty for that one."""
        return "" if self.tie is None else self.tie.user

    @property
    def in_order(self) -> tuple[Members, ...]:
        """Who has what of each dim, in the order of the layer whose weight it is."""
        own = self.holding.members
        return own if self.tie is None else tuple(own[axis] for axis in self.tie.axes)


@dataclass(frozen=True, kw_only=True)
class Flow:
    """A lowering under way.

    Attributes:
        graph: the network.
        places: the devices.
        cuts: the cuts of each layer with choices.
        convention: what becomes of partial sums.
        made: the outputs of the layers so far.
        work: the forward passes so far.
        errors: for each layer, the arrays of what its readers have sent back, and who has what of them.
        steps: the steps so far.
        updates: the updates, which come last.
        tied: for each layer whose weight others use too, their terms of its gradient.
    """

    graph: LayerGraph
    places: Places
    cuts: Mapping[str, Cuts]
    convention: str
    made: dict[str, Made] = field(default_factory=dict)
    work: dict[str, Work] = field(default_factory=dict)
    errors: dict[str, list[tuple[str, Holding]]] = field(default_factory=dict)
    trained: set[str] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    tied: dict[str, list[Used]] = field(default_factory=dict)

    def nest(self, layer: Layer) -> Nest:
        """Return the loop nest of a layer."""
        return layer.nest(self.graph.batch)

    def copy(self, source: str, target: str, have: Holding, need: Holding, item: Item) -> str:
        """Copy a tensor to those who need it, and return the new array; the old one where all have what they need."""
        if need.within(have):
            return source
        self.steps.append(Copy(source=source, target=target, have=have, need=need, item=item))
        return target

    def operand(self, layer: Layer, number: int, need: Holding) -> str:
        """Copy an input of a layer to the devices that read it, and return the array."""
        source = layer.inputs[number]
        made, item = self.made[source], Item(layer.name, source, "forward", "input")
        return self.copy(made.array, f"in {layer.name} {number}", made.holding, need, item)

    def add(
        self, source: str, target: str, terms: Holding, need: Holding, copies: Numbers, item: Item
    ) -> str:
        """Sum terms for those who need them, and return the array of sums; that of the terms where each is a sum."""
        if not overlapping(terms, copies) and not lacking(terms, need, copies):
            return source
        self.steps.append(Add(source=source, target=target, terms=terms, need=need, copies=copies, item=item))
        return target

    def next_choice(self, layer: Layer) -> Reader | None:
        """Return the only planned layer that reads a layer's output, through ops without choices; or None."""
        while len(readers := self.readers(layer)) == 1:
            name, (layer,) = layer.name, readers
            if layer.name in self.cuts:
                operand = layer.inputs.index(name) if self.nest(layer).others else 0
                return Reader(layer, operand, self.cuts[layer.name])
        return None

    def readers(self, layer: Layer) -> tuple[Layer, ...]:
        """Return the layers that read a layer's output, once for each time."""
        return tuple(reader for reader in self.graph.layers for name in reader.inputs if name == layer.name)
