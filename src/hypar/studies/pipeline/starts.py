"""Where the stages of a pipeline may start, and starts that people give."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hypar.errors import OptionError, shown, suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.graph import LayerGraph

MOST_STAGES = 256


def places(graph: LayerGraph) -> list[int]:
    """Indices of the layers that a stage may start with, and the number of layers.

    All but those right behind the inputs that the network starts with: these belong to the first stage, with a layer
    at least.
    """
    first = next(index for index, layer in enumerate(graph.layers) if layer.inputs)
    return [0, *range(first + 1, len(graph.layers) + 1)]


def checked_stages(stages: int, graph: LayerGraph) -> int:
    """How many stages, if there can be so many.

    Raises:
        OptionError: no whole number from 1, or more than layers or than ``MOST_STAGES``.
    """
    layers = len(places(graph)) - 1
    if isinstance(stages, bool) or not isinstance(stages, int) or not 1 <= stages <= min(layers, MOST_STAGES):
        every = f", one for each layer of {graph.name!r} but its input" if layers <= MOST_STAGES else ""
        allowed = f"a whole number from 1 to {min(layers, MOST_STAGES)}{every}"
        raise OptionError("stages", f"found {shown(stages)}", allowed)
    return stages


def given_bounds(starts: str | Sequence[str], graph: LayerGraph) -> tuple[int, ...]:
    """Where the stages of given starts start, and the number of layers.

    Args:
        starts: names of the stages' first layers, in order; as a text with commas between.
        graph: the network.

    Raises:
        OptionError: a layer that there is not, that comes before the one named before it, or other than the first
            one first.
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
    """Refuse starts that do not begin with the first layer, or do not go on in the network's order."""
    if not bounds or bounds[0]:
        found = f"found {names[0]!r} first" if names else "found none"
        raise OptionError("starts", found, f"{first!r} first, as the network begins with it")
    for place, (before, after) in enumerate(pairwise(bounds)):
        if before >= after:
            found = f"found {names[place + 1]!r} behind {names[place]!r}"
            raise OptionError("starts", found, "first layers of stages, in the network's order")
