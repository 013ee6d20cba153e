"""The state above a level: what the choices of the outer levels leave of each layer, and have of each tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.sharding.amounts.between import Between
from hypar.sharding.amounts.factors import factors_of, plain
from hypar.sharding.amounts.flows import Flows, flows_of
from hypar.sharding.amounts.parts import names_of, parts_of
from hypar.sharding.amounts.places import spread_all
from hypar.sharding.amounts.products import OUTERMOST, Products, below, least_below
from hypar.sharding.levels import WHOLE_LAYER, LocalSizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.contraction import ContractedGraph, Tensor
    from hypar.sharding.amounts.flows import Flow
    from hypar.sharding.amounts.parts import Part
    from hypar.sharding.placement import Options


class Above(list[LocalSizes]):
    """The local sizes of each layer above a level, with the products of each tensor.

    Attributes:
        flows: the amounts of the network.
        between: for each tensor its dims at both ends.
        parts: for each tensor its transfers.
        products: for each tensor the products of the factors of the levels above.
        least: whether the products are the least of many tuples, for lower bounds.
    """

    def __init__(
        self,
        sizes: Sequence[LocalSizes],
        network: tuple[Flows, tuple[Between, ...], tuple[tuple[Part, ...], ...]],
        products: Sequence[Products],
        *,
        least: bool = False,
    ) -> None:
        """Combine sizes and products."""
        super().__init__(sizes)
        self.network = network
        self.flows, self.between, self.parts = network
        self.products = tuple(products)
        self.least = least


def outermost(graph: ContractedGraph, convention: str) -> Above:
    """Return the state above the outermost level."""
    flows = flows_of(graph, convention)
    between = [
        between_of(graph, tensor, flow) for tensor, flow in zip(graph.tensors, flows.tensors, strict=True)
    ]
    parts = tuple(parts_of(flow, one) for flow, one in zip(flows.tensors, between, strict=True))
    products = [OUTERMOST] * len(between)
    return Above([WHOLE_LAYER] * len(graph.layers), (flows, tuple(between), parts), products)


def between_of(graph: ContractedGraph, tensor: Tensor, flow: Flow) -> Between:
    """Return a tensor's dims at both ends."""
    made, read = (graph.layers[end].einsum.unsized() for end in (tensor.producer, tensor.consumer))
    dims = tuple(dim for dim, _ in tensor.content.shape)
    return Between(made, read, dims, tensor.content.contracted, bool(flow.made))


def below_level(
    graph: ContractedGraph, above: Above, options: Sequence[Options], ways: int, *, least: bool = False
) -> Above:
    """Return the state below a level for each tuple above and each option; equal ones share one object.

    Args:
        graph: the layers.
        above: the state above the level.
        options: for each layer its options at the level.
        ways: the ways of the level.
        least: whether to keep the least products instead of those of each pair of tuples.
    """
    sizes: dict[object, LocalSizes] = {}
    kept: dict[object, Products] = {}
    for layer, before, choices in zip(graph.layers, above, options, strict=True):
        key = (layer.einsum, before, choices)
        if key not in sizes:
            left = before.divided(layer.einsum, choices, ways)
            sizes[key] = left.distinct() if least else left
    found = []
    for tensor, between, parts, products in zip(
        graph.tensors, above.between, above.parts, above.products, strict=True
    ):
        ends = (graph.layers[tensor.producer].einsum, graph.layers[tensor.consumer].einsum)
        pair = (options[tensor.producer], options[tensor.consumer])
        place = (id(parts), pair, above[tensor.consumer], ends[1], id(products))
        if place not in kept:
            if least:
                kept[place] = least_below(products, plain(between, pair, ways).at_level.factors)
            else:
                here = factors_of(ends, between, pair, above[tensor.consumer], ways)
                factors = here.flat[0] if here.flat else spread_all(here.factors, names_of(parts), None)
                kept[place] = below(products, factors, names_of(parts))
        found.append(kept[place])
    keys = [(layer.einsum, *own) for layer, *own in zip(graph.layers, above, options, strict=True)]
    return Above([sizes[key] for key in keys], above.network, found, least=least)
