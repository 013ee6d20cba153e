"""The state above a level: what the choices of the outer levels leave of each layer, and have of each tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypar.sharding.amounts.factors import factors_of_pair, plain
from hypar.sharding.amounts.products import OUTERMOST, Products, below, least_below
from hypar.sharding.amounts.transfers import network_of
from hypar.sharding.dims import SPATIAL
from hypar.sharding.levels import WHOLE_LAYER, LocalSizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.nodes import PlanGraph
    from hypar.sharding.amounts.transfers import Network
    from hypar.sharding.placement import Options


class Above(NamedTuple):
    """The state above a level.

    Attributes:
        network: the transfers of the network.
        sizes: the local sizes of each layer.
        products: for each tensor the products of the factors of the levels above.
        least: whether they are the distinct sizes, and the least products, of many tuples, for lower bounds.
    """

    network: Network
    sizes: tuple[LocalSizes, ...]
    products: tuple[Products, ...]
    least: bool = False


def outermost(graph: PlanGraph, convention: str) -> Above:
    """Return the state above the outermost level."""
    network = network_of(graph, convention)
    return Above(network, (WHOLE_LAYER,) * len(graph.layers), (OUTERMOST,) * len(network.tensors))


def below_level(
    graph: PlanGraph, above: Above, options: Sequence[Options], ways: int, *, least: bool = False
) -> Above:
    """Return the state below a level; equal sizes and equal products share one object.

    Args:
        graph: the layers.
        above: the state above the level.
        options: for each layer its choice at the level; several for lower bounds.
        ways: the ways of the level.
        least: whether to keep distinct sizes and the least products of all tuples and options, for lower bounds.
    """
    numbers: dict[Options, int] = {}
    chosen = [numbers.setdefault(own, len(numbers)) for own in options]
    reaching = any(choice.degree(dim) > 1 for own in numbers for choice in own for dim in SPATIAL)
    below_it: dict[object, LocalSizes] = {}
    left = []
    for layer, before, choices, number in zip(graph.layers, above.sizes, options, chosen, strict=True):
        key = (layer.nest, before, number)
        if key not in below_it:
            divided = before.divided(layer.nest, choices, ways)
            below_it[key] = divided.distinct() if least else divided
        left.append(below_it[key])
    network = above.network
    if any(between.apart for between in network.between):
        return Above(network, tuple(left), above.products, least)
    kept: dict[object, Products] = {}
    found = []
    for tensor, between, parts, products in zip(
        network.tensors, network.between, network.parts, above.products, strict=True
    ):
        ends = (tensor.producer, tensor.consumer)
        read, sizes = graph.layers[ends[1]].nest, above.sizes[ends[1]]
        place: tuple[object, ...] = (id(parts), id(products), chosen[ends[0]], chosen[ends[1]])
        if reaching:
            place = (*place, read, sizes)
        if place not in kept:
            pair = (options[ends[0]], options[ends[1]])
            if least:
                kept[place] = least_below(products, plain(between, pair, ways))
            else:
                factors = factors_of_pair(read, between, (pair[0][0], pair[1][0]), sizes, ways)
                kept[place] = below(products, factors)
        found.append(kept[place])
    return Above(network, tuple(left), tuple(found), least)
