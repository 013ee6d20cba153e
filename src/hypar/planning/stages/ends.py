"""The places where stages may begin and end, and the partition that starts given by the user make."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hypar.errors import OptionError, TableLimitError, shown, suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import PlanGraph

MOST_LAYERS = 256
"""Largest number of layers before each of which a stage may begin; of more of them only the first one of each block."""

MOST_PLACES = 512
"""Largest number of places to begin at: minutes of planning if no two layers are equal."""


def stage_ends(names: Sequence[str]) -> tuple[int, ...]:
    """Return the layers before which a stage may begin, and the number of layers.

    That is any layer, but in a network of more than ``MOST_LAYERS`` layers the first one of a block: of consecutive layers
    whose names are the same up to the last number that others follow, or without numbers up to the last dot.

    Args:
        names: the layers that are cut, in topological order.

    Raises:
        TableLimitError: the network has too many layers, or blocks.

    Examples:
        >>> stage_ends(["wte", "h.0.q", "h.0.k", "h.1.q"])
        (0, 1, 2, 3, 4)
        >>> stage_ends(["wte", *(f"h.{block}.{name}" for block in range(300) for name in ("q", "mlp.up")), "head"])[:5]
        (0, 1, 3, 5, 7)
    """
    if len(names) <= MOST_LAYERS:
        return tuple(range(len(names) + 1))
    blocks = [*map(_block, names)]
    first = [at for at, block in enumerate(blocks) if at == 0 or block != blocks[at - 1]]
    if len(first) > MOST_PLACES:
        found = f"found {len(names):,} layers that are cut"
        found += f" in {len(first):,} blocks" if len(first) < len(names) else ""
        raise TableLimitError(
            f"stages: {found}; allowed: {MOST_PLACES:,}; try --starts", len(first), MOST_PLACES
        )
    return (*first, len(names))


def _block(name: str) -> str:
    """Return the name of the block of a layer, as ``layers.3`` of ``layers.3.mlp.up``; one of no block is its own."""
    *parents, _ = name.split(".")
    numbered = [at for at, word in enumerate(parents, 1) if word.isdecimal()]
    return ".".join(parents[: numbered[-1]] if numbered else parents) or name


def given_bounds(starts: Sequence[str], graph: LayerGraph, nodes: PlanGraph) -> tuple[int, ...]:
    """Return the first layer of each stage, by its index among the layers that are cut, and their number.

    Args:
        starts: names of the stages' first layers, in order.
        graph: the network.
        nodes: its layers that are cut.

    Raises:
        OptionError: a layer does not exist or is not cut, precedes the one named before it, or is named first without
            being the network's first.
    """
    index = {layer.name: number for number, layer in enumerate(nodes.layers)}
    places = {layer.name: number for number, layer in enumerate(graph.layers)}
    first = nodes.layers[0].name
    for name in starts:
        if not isinstance(name, str) or name not in places:
            raise OptionError("starts", f"no layer is named {shown(name)}", hint=suggestion(str(name), index))
        if name not in index and places[name] > places[first]:
            _refuse_uncut(name, graph, index)
    # The layers before the first one that is cut start the first stage with it.
    bounds = [index.get(name, 0) for name in starts]
    if bounds[0]:
        allowed = f"{first!r} first, as the network begins with it"
        raise OptionError("starts", f"found {starts[0]!r} first", allowed)
    for place, (before, after) in enumerate(pairwise(bounds)):
        if before >= after:
            found = f"found {starts[place + 1]!r} behind {starts[place]!r}"
            raise OptionError("starts", found, "first layers of stages, in the network's order")
    return (*bounds, len(nodes.layers))


def _refuse_uncut(name: str, graph: LayerGraph, cut: dict[str, int]) -> None:
    """Refuse a layer that stays with the one before it."""
    names = [layer.name for layer in graph.layers]
    behind = names[names.index(name) :]
    following = next((other for other in behind if other in cut), None)
    allowed = "layers that are cut" if following is None else f"layers that are cut, as {following!r}"
    raise OptionError("starts", f"found {name!r}, which stays with the layer before it", allowed)
