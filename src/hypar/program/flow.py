"""What a lowering knows while it walks a network: the tensors that exist, who has them, and the steps so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

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
class Pass:
    """The forward pass of a layer.

    Attributes:
        array: the array of its output.
        holding: who has what of the output.
        layout: the layout after which later ops divide an image.
        output: who computes what of the output.
        inputs: the copies of its inputs, also those that move nothing.
        dims: for each dim of the op the indices that each device computes, ``[devices, size]``.
        copies: which copy of its terms each device has, where the op leaves terms.
        reads: the arrays that it reads, by their role.
    """

    array: str
    holding: Holding
    layout: Layout
    output: Holding
    inputs: tuple[Copy, ...] = ()
    dims: Mapping[str, Members] = field(default_factory=dict)
    copies: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    reads: Mapping[str, str] = field(default_factory=dict)


def pieces_of(dims: Mapping[str, Members], made: Container[str] | None = None) -> tuple[Piece | None, ...]:
    """Return the indices of each dim for each device; None for a device that has none of some dim, or of some that is made."""
    rows = zip(*(indices_of(own) for own in dims.values()), strict=True)
    pieces = [dict(zip(dims, row, strict=True)) for row in rows]
    return tuple(
        own if all(len(at) for dim, at in own.items() if made is None or dim in made) else None
        for own in pieces
    )


@dataclass(frozen=True, kw_only=True)
class Flow:
    """A lowering under way.

    Attributes:
        graph: the network.
        places: the devices.
        layouts: the layout of each layer with choices.
        convention: what becomes of partial sums.
        made: the forward passes of the layers so far.
        errors: for each layer, the arrays of what its readers have sent back, and who has what of them.
        trained: the layers whose backward pass trains something.
        steps: the steps so far.
        updates: the updates, which come last.
        tied: for each layer whose weight others use too, how each of these would add up its terms of the gradient.
    """

    graph: LayerGraph
    places: Places
    layouts: Mapping[str, Layout]
    convention: str
    made: dict[str, Pass] = field(default_factory=dict)
    errors: dict[str, list[tuple[str, Holding]]] = field(default_factory=dict)
    trained: set[str] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    tied: dict[str, list[tuple[Tie, Add]]] = field(default_factory=dict)

    def nest(self, layer: Layer) -> Nest:
        """Return the loop nest of a layer."""
        return layer.nest(self.graph.batch)

    def move(self, step: Copy | Add) -> str:
        """Add a transfer, and return the array that it writes; where it is idle, the one that it would read."""
        if step.idle:
            return step.source
        self.steps.append(step)
        return step.target

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
        self,
        layer: Layer,
        dims: Mapping[str, Members],
        copies: Numbers,
        reads: Mapping[str, str],
        before: str = "",
    ) -> dict[str, str]:
        """Add up the sums of a phase, and return their arrays by role, their name; of the backward phase with ``back `` before it.

        A sum over dims that every device has whole needs no other device, unless it is a gradient. Devices that compute
        nothing need the sum only if it is the gradient of a tensor that they hold.
        """
        nest, active = self.nest(layer), np.all([own.any(axis=1) for own in dims.values()], axis=0)
        roles = {}
        for name, own in nest.sums.items():
            over = [each[active].all() for dim, each in dims.items() if dim not in own.dims]
            if own.backward is bool(before) and (name in layer.trained or own.together or not all(over)):
                roles[name] = f"{before}{name}"
        if not roles:
            return {}
        writes = {name: f"{role} terms {layer.name}" for name, role in roles.items()}
        self.steps.append(
            Compute(kind="statistics", layer=layer.name, pieces=pieces_of(dims), reads=reads, writes=writes)
        )
        item, found = Item(layer.name, None, "backward" if before else "forward", "statistics"), {}
        for name, role in roles.items():
            trained, own = nest.trained.get(name), nest.sums[name]
            held = Holding(members(trained, dims) if trained else tuple(dims[dim] for dim in own.dims))
            need = terms = held.on(active)
            if own.together:
                pairs = zip(own.dims, need.members, strict=True)
                need = Holding(tuple(_whole(each, own.together.get(dim, 1)) for dim, each in pairs))
            if before and name in layer.trained:
                need = held
            found[role] = self.move(Add(writes[name], f"{role} {layer.name}", terms, need, item, copies))
        return found


def _whole(each: Members, size: int) -> Members:
    """Return the indices of a dim that devices have, with all others of runs of some size of which they have one."""
    return each.reshape(len(each), -1, size).any(axis=2).repeat(size, axis=1)
