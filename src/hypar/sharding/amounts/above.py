"""The state above a level: what the choices of the outer levels leave of each layer, and have of each tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


class Above(list[LocalSizes]):
    """The local sizes of each layer above a level, with the products of each tensor.

    Attributes:
        sums: for each layer the sums that are added up inside it.
        between: for each tensor its dims at both ends.
        parts: for each tensor its transfers.
        tensors: the tensors.
        products: for each tensor the products of the factors of the levels above.
        least: whether the products are the least of many tuples, for lower bounds.
    """

    def __init__(
        self,
        sizes: Sequence[LocalSizes],
        network: Network,
        products: Sequence[Products],
        *,
        least: bool = False,
    ) -> None:
        """Combine sizes and products."""
        super().__init__(sizes)
        self.network = network
        self.sums, self.between, self.parts, self.tensors = network
        self.products = tuple(products)
        self.least = least


def outermost(graph: PlanGraph, convention: str) -> Above:
    """Return the state above the outermost level."""
    network = network_of(graph, convention)
    return Above([WHOLE_LAYER] * len(graph.layers), network, [OUTERMOST] * len(network.tensors))


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
    sizes: dict[object, LocalSizes] = {}
    left = []
    for layer, before, choices, number in zip(graph.layers, above, options, chosen, strict=True):
        key = (layer.nest, before, number)
        if key not in sizes:
            divided = before.divided(layer.nest, choices, ways)
            sizes[key] = divided.distinct() if least else divided
        left.append(sizes[key])
    if any(between.apart for between in above.between):
        return Above(left, above.network, above.products, least=least)
    kept: dict[object, Products] = {}
    found = []
    for tensor, between, parts, products in zip(
        above.tensors, above.between, above.parts, above.products, strict=True
    ):
        ends = (tensor.producer, tensor.consumer)
        place: tuple[object, ...] = (id(parts), id(products), chosen[ends[0]], chosen[ends[1]])
        if reaching:
            place = (*place, graph.layers[ends[1]].nest, above[ends[1]])
        if place not in kept:
            pair = (options[ends[0]], options[ends[1]])
            if least:
                kept[place] = least_below(products, plain(between, pair, ways).factors)
            else:
                read, one = graph.layers[ends[1]].nest, (pair[0][0], pair[1][0])
                factors = factors_of_pair(read, between, one, above[ends[1]], ways)[0]
                kept[place] = below(products, factors)
        found.append(kept[place])
    return Above(left, above.network, found, least=least)
