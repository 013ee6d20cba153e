"""The volume of a plan by counts, from the network alone: what is added up inside layers, and what two layers share.

With k ways at each of L levels and n(d) levels that cut a layer in dim d, k**n devices have each element of a tensor, n
being the levels whose dim the tensor does not have. Adding up terms moves 2 A (k**n - 1) elements. A tensor between two
layers moves A (need - both) forward and A (have - both) back; theorem 2 of ``docs/optimal.md`` bounds ``both``.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from hypar.network.graph import LayerGraph
from hypar.network.nodes import PlanGraph, Tensor
from hypar.ops.nest import Nest
from hypar.plan.plan import Plan

Order = list[str | None]


def volume_by_counts(plan: Plan, graph: LayerGraph) -> float:
    """The bytes that a plan moves at levels of equal ways, each layer cut in one dim or none at each."""
    rested = (
        graph.without_rests if {*plan.layers} <= {layer.name for layer in graph.layers} else graph.at_rest
    )
    nodes, ways = rested.nodes(plan.graph), plan.array[0]
    orders = [_order(plan, layer) for layer in plan.layers]
    fed: set[int] = set()
    rests = {tensor.consumer for tensor in nodes.tensors if nodes.layers[tensor.producer].rest}
    found = []
    for tensor in sorted(nodes.tensors, key=lambda one: one.consumer):
        error = nodes.layers[tensor.producer].weighted or tensor.producer in fed
        if error:
            fed.add(tensor.consumer)
        found.append(_between(tensor, nodes, orders, ways, error=error))
    for index, layer in enumerate(nodes.layers):
        if layer.nest.weight:
            found += _inside(layer.nest, orders[index], ways, rests=index in rests, fed=index in fed)
        elif layer.rest and index in fed:
            # Who has an element of a tensor at rest has a term of its error.
            copies = float(ways) ** orders[index].count(None)
            found.append(2 * layer.nest.elements("output") * (copies - 1))
    return math.fsum(found) * graph.element_bytes


def _order(plan: Plan, layer: str) -> Order:
    divided = [choice.divided for choice in plan.choices(layer)]
    assert all(len(dims) <= 1 for dims in divided)
    assert len({*plan.array}) == 1
    return [dims[0] if dims else None for dims in divided]


def _inside(nest: Nest, order: Order, ways: int, *, rests: bool, fed: bool) -> Iterator[float]:
    """Terms of a layer's tensors; of E_in only where something before it is trained, and it is not added up at rest."""
    elements: dict[str, float] = {name: nest.elements(name) for name in ("weight", "output")}
    if fed and not rests:
        elements["input"] = nest.input_elements * _read(nest)
    for tensor, count in elements.items():
        terms = sum(dim not in nest.names[tensor] for dim in order)
        yield 2 * count * (float(ways) ** terms - 1)


def _between(tensor: Tensor, nodes: PlanGraph, orders: Sequence[Order], ways: int, *, error: bool) -> float:
    made, read = nodes.layers[tensor.producer].nest, nodes.layers[tensor.consumer].nest
    ends = (
        _words(orders[tensor.producer], made.names["output"], tensor),
        _words(orders[tensor.consumer], read.names["input"], tensor),
    )
    shared = sum(
        (one is None) + (other is None) + (one == other is not None) - 1
        for one, other in zip(*ends, strict=True)
    )
    have, need, both = (float(ways) ** n for n in (ends[0].count(None), ends[1].count(None), shared))
    back = need if nodes.layers[tensor.producer].rest else have
    return tensor.elements * _read(read) * ((need - both) + error * (back - both))


def _words(order: Order, carried: Mapping[str, str], tensor: Tensor) -> Order:
    """The dim of a tensor that each level divides; None where all devices have all of it."""
    has = {"batch", *(dim for dim, _ in tensor.shape)} - tensor.contracted
    words = [carried.get(dim or "") for dim in order]
    return [word if word in has else None for word in words]


def _read(nest: Nest) -> float:
    """The fraction of F_in that the windows of a layer read, if they leave gaps."""
    found = 1.0
    for dim, window in nest.windows.items():
        size = nest.input_sizes[dim]
        if not window.transposed and window.stride > window.extent and size:
            starts = (at * window.stride - window.padding for at in range(nest.sizes[dim]))
            rows = {row for start in starts for row in range(max(0, start), min(start + window.extent, size))}
            found *= len(rows) / size
    return found
