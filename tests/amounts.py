"""The amounts of one plan: the elements of every transfer, layer by layer and level by level."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypar.sharding.amounts.above import outermost
from hypar.sharding.amounts.counted import received_between, received_inside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.nodes import PlanGraph
    from hypar.sharding.amounts.above import State
    from hypar.sharding.placement import Options


class Amount(NamedTuple):
    """The elements of one transfer at one level.

    Attributes:
        layer: name of the layer inside which sums are added up; between two layers both names.
        level: the level, 0 for the outermost.
        phase: the phase.
        tensor: the tensor, as in ``Received``.
        elements: elements that all devices receive.
    """

    layer: str | tuple[str, str]
    level: int
    phase: str
    tensor: str
    elements: float


def amounts(
    graph: PlanGraph,
    array: Sequence[int],
    choices: Sequence[Options],
    convention: str,
    above: State | None = None,
) -> list[Amount]:
    """Return the amounts of a plan under ``moved`` or ``fused``.

    Args:
        graph: the layers.
        array: ways of each level, outermost first.
        choices: for each layer a choice at each level.
        convention: ``moved`` or ``fused``.
        above: the state below uneven splits; None if there are none.
    """
    ways = tuple(array)
    state = above or outermost(graph, convention)
    network = state.network
    found = []
    for at, (layer, sums, own) in enumerate(zip(graph.layers, network.sums, choices, strict=True)):
        moves = received_inside(layer.nest, sums, ways, own, state.input(graph, at))
        found += [Amount(layer.name, one.level, one.phase, one.tensor, one.elements) for one in moves]
    for tensor, between, parts, left in zip(
        network.tensors, network.between, network.parts, state.tensors, strict=True
    ):
        made, read = graph.ends(tensor)
        pair = (choices[tensor.producer], choices[tensor.consumer])
        moves = received_between(between, parts, ways, pair, left)
        for one in moves:
            place = made.name if one.inside else (made.name, read.name)
            found.append(Amount(place, one.level, one.phase, one.tensor, one.elements))
    return found
