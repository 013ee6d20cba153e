"""What a lowering knows while it walks a network: the tensors that exist, who has them, and the steps so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.program.counting import overlapping
from hypar.program.holding import Holding, indices_of
from hypar.program.reads import members
from hypar.program.steps import Add, Compute, Copy, Item, Step, Update

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer, Tie
    from hypar.ops.nest import Nest
    from hypar.program.holding import Members, Piece
    from hypar.program.layout import Layout, Numbers, Places


def axes_of(layer: Layer) -> tuple[str, ...]:
    """Return the dims of a layer's output, in the order of its array."""
    return ("batch", *layer.shape)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Made:
    """The output of a layer.

    Attributes:
        array: the array of its elements.
        holding: who has what of it.
        layout: the layout after which later ops divide an image.
    """

    array: str
    holding: Holding
    layout: Layout


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


class Used(NamedTuple):
    """The terms that a layer has of the gradient of a weight that several layers use.

    Attributes:
        tie: the tie; None for the layer whose weight it is.
        array: the array of the terms, in the layer's own order of the dims.
        holding: who has what of the weight for the layer, in the order of the layer whose weight it is.
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


@dataclass(frozen=True, kw_only=True)
class Flow:
    """A lowering under way.

    Attributes:
        graph: the network.
        places: the devices.
        layouts: the layout of each layer with choices.
        convention: what becomes of partial sums.
        made: the outputs of the layers so far.
        work: the forward passes so far.
        errors: for each layer, the arrays of what its readers have sent back, and who has what of them.
        trained: the layers whose backward pass trains something.
        steps: the steps so far.
        updates: the updates, which come last.
        tied: for each layer whose weight others use too, their terms of its gradient.
    """

    graph: LayerGraph
    places: Places
    layouts: Mapping[str, Layout]
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

    def add(self, source: str, target: str, have: Holding, need: Holding, copies: Numbers, item: Item) -> str:
        """Sum terms for those who need them, and return the array of sums; that of the terms where each is a sum."""
        if not overlapping(have, copies) and need.within(have.on(copies >= 0)):
            return source
        self.steps.append(Add(source=source, target=target, have=have, need=need, copies=copies, item=item))
        return target

    def next_choice(self, layer: Layer) -> tuple[Layer, int] | None:
        """Return the only planned layer that reads an output, through ops without choices, and the operand that it is; or None."""
        while len(readers := self.readers(layer)) == 1:
            name, (layer,) = layer.name, readers
            if layer.name in self.layouts:
                return layer, layer.inputs.index(name) if self.nest(layer).others else 0
        return None

    def readers(self, layer: Layer) -> tuple[Layer, ...]:
        """Return the layers that read a layer's output, once for each time."""
        return tuple(reader for reader in self.graph.layers for name in reader.inputs if name == layer.name)

    def statistics(
        self, layer: Layer, work: Work, reads: Mapping[str, str], before: str = ""
    ) -> dict[str, str]:
        """Add up the sums of a phase, and return their arrays by role, their name; of the backward phase with ``back `` before it.

        A sum over dims that every device has whole needs no other device, unless it is a gradient. Devices that compute
        nothing need the sum only if it is the gradient of a tensor that they hold.
        """
        nest, active = self.nest(layer), np.all([own.any(axis=1) for own in work.dims.values()], axis=0)
        roles = {}
        for name, own in nest.sums.items():
            over = [each[active].all() for dim, each in work.dims.items() if dim not in own.dims]
            if own.backward is bool(before) and (name in layer.trained or own.together or not all(over)):
                roles[name] = f"{before}{name}"
        if not roles:
            return {}
        writes = {name: f"{role} terms {layer.name}" for name, role in roles.items()}
        self.steps.append(
            Compute(kind="statistics", layer=layer.name, pieces=work.pieces, reads=reads, writes=writes)
        )
        item, found = Item(layer.name, None, "backward" if before else "forward", "statistics"), {}
        for name, role in roles.items():
            trained, own = nest.trained.get(name), nest.sums[name]
            held = members(trained, work.dims) if trained else tuple(work.dims[dim] for dim in own.dims)
            need = terms = Holding(held).on(active)
            if own.together:
                pairs = zip(own.dims, need.members, strict=True)
                need = Holding(tuple(_whole(each, own.together.get(dim, 1)) for dim, each in pairs))
            if before and name in layer.trained:
                need = Holding(held)
            found[role] = self.add(writes[name], f"{role} {layer.name}", terms, need, work.copies, item)
        return found


def _whole(each: Members, size: int) -> Members:
    """Return the indices of a dim that devices have, with all others of runs of some size of which they have one."""
    return each.reshape(len(each), -1, size).any(axis=2).repeat(size, axis=1)
