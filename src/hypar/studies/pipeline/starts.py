"""Candidate starts of a pipeline's stages, and starts given by the user."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hypar.errors import OptionError, shown, suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.graph import LayerGraph

MOST_STAGES = 256


def places(graph: LayerGraph) -> list[int]:
    """Return the indices of the layers that a stage may start with, and the number of layers.

    Layers directly behind the network's inputs are left out: they belong to the first stage, together with at least
    one layer.
    """
    first = next(index for index, layer in enumerate(graph.layers) if layer.inputs)
    return [0, *range(first + 1, len(graph.layers) + 1)]


def checked_stages(stages: int, graph: LayerGraph) -> int:
    """Return the number of stages, if the network can have that many.

    Raises:
        OptionError: it is not a whole number from 1, or exceeds the number of layers or ``MOST_STAGES``.
    """
    layers = len(places(graph)) - 1
    if isinstance(stages, bool) or not isinstance(stages, int) or not 1 <= stages <= min(layers, MOST_STAGES):
        every = f", one for each layer of {graph.name!r} but its input" if layers <= MOST_STAGES else ""
        allowed = f"a whole number from 1 to {min(layers, MOST_STAGES)}{every}"
        raise OptionError("stages", f"found {shown(stages)}", allowed)
    return stages


def given_bounds(starts: str | Sequence[str], graph: LayerGraph) -> tuple[int, ...]:
    """Return the places where given stages start, and the number of layers.

    Args:
        starts: names of the stages' first layers, in order; a text separates them with commas.
        graph: the network.

    Raises:
        OptionError: a layer does not exist, precedes the one named before it, or is named first without being the
            network's first.
    """
    names = [name.strip() for name in starts.split(",")] if isinstance(starts, str) else list(starts)
    index = {layer.name: number for number, layer in enumerate(graph.layers)}
    for name in names:
        if not isinstance(name, str) or name not in index:
            raise OptionError("starts", f"no layer is named {shown(name)}", hint=suggestion(str(name), index))
    first = places(graph)[1] - 1
    # The layer behind the inputs starts the first stage with them.
    bounds = [index[name] if index[name] > first else 0 for name in names]
    _require_order(names, bounds, graph.layers[first].name)
    checked_stages(len(bounds), graph)
    return (*bounds, len(graph.layers))


def _require_order(names: Sequence[str], bounds: Sequence[int], first: str) -> None:
    """Refuse starts that do not begin with the first layer, or leave the network's order."""
    if not bounds or bounds[0]:
        found = f"found {names[0]!r} first" if names else "found none"
        raise OptionError("starts", found, f"{first!r} first, as the network begins with it")
    for place, (before, after) in enumerate(pairwise(bounds)):
        if before >= after:
            found = f"found {names[place + 1]!r} behind {names[place]!r}"
            raise OptionError("starts", found, "first layers of stages, in the network's order")
