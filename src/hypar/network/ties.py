"""Tied weights: one weight that several layers use, each with its own order of the dims."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import ModelError
from hypar.ops.dims import atom_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.layer import Layer


class Tie(NamedTuple):
    """A layer that uses the weight of another.

    Attributes:
        user: the layer.
        owner: the layer whose weight it is.
        axes: for each dim of the owner's weight the place of that dim in the user's, as ``np.transpose`` takes them.
    """

    user: str
    owner: str
    axes: tuple[int, ...]

    @property
    def back(self) -> tuple[int, ...]:
        """For each dim of the user's weight the place of that dim in the owner's."""
        return tuple(self.axes.index(place) for place in range(len(self.axes)))


def ties_of(layers: Sequence[Layer]) -> tuple[Tie, ...]:
    """Return the ties of a network, in the order of its layers.

    Raises:
        ModelError: a weight has other dims than the one that it is tied to; ``where`` is the name of its layer.
    """
    named = {layer.name: layer for layer in layers}
    found = []
    for layer in layers:
        if layer.op.tied is not None:
            owner = named[layer.op.tied]
            wanted = _dims(owner) if owner.op.tied is None else {}
            own = _dims(layer)
            if own != wanted:
                theirs = " x ".join(f"{dim} {size}" for dim, size in wanted.items()) or "no weight of its own"
                mine = " x ".join(f"{dim} {size}" for dim, size in own.items())
                raise ModelError(
                    layer.name, f"a weight of {mine} tied to {owner.name!r} of {theirs}", "equal dims"
                )
            order = [*own]
            found.append(Tie(layer.name, owner.name, tuple(order.index(dim) for dim in wanted)))
    return tuple(found)


def _dims(layer: Layer) -> dict[str, int]:
    """Return the dims of a layer's weight with their sizes, by their names in tensors."""
    nest = layer.nest(1)
    return {atom_of(dim): nest.sizes[dim] for dim in nest.weight}
