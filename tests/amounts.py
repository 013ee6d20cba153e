"""The amounts of one plan: the elements of every transfer, layer by layer and level by level."""

from collections.abc import Sequence
from typing import NamedTuple

from hypar.network.nodes import PlanGraph
from hypar.sharding.amounts.counted import State, outermost, received_between, received_inside
from hypar.sharding.placement import Options


class Amount(NamedTuple):
    """Elements of a transfer that all devices receive at a level, 0 the outermost; both names between layers."""

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
    """Return the amounts of choices by layer and level; ``above`` is the state below uneven splits."""
    ways = tuple(array)
    state = above or outermost(graph, convention)
    network = state.network
    found = []
    for at, (layer, sums, own) in enumerate(zip(graph.layers, network.sums, choices, strict=True)):
        moves = received_inside(layer.nest, sums, ways, own, state.inputs[at])
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
