"""Equal spans of a network: with the same layers, tensors inside and tensors from and to others, as in equal blocks, and tied weights.

As stages on the same devices they get equal cuts and cost the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hypar.network.nodes import Tensor, kept_with_graph
from hypar.sharding.amounts.transfers import network_of
from hypar.sharding.conventions import MOVED

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from hypar.network.nodes import PlanGraph


@kept_with_graph
def equal_layers(graph: PlanGraph, *, named: bool = False) -> NDArray[np.int32]:
    """Return the number of layers that are equal in turn from each layer on and from each other one, ``[layers, layers]``.

    Args:
        graph: the layers of the network.
        named: whether layers of different names are different.
    """
    around: list[list[Hashable]] = [[] for _ in graph.layers]
    for tensor, parts in zip(graph.tensors, network_of(graph, MOVED, tied=False).parts, strict=True):
        ends = tuple(graph.layers[end].nest for end in (tensor.producer, tensor.consumer))
        # By ``paper`` a stage also receives what only passes.
        for layer in range(tensor.producer, tensor.consumer + 1):
            around[layer].append((counted_from(layer, tensor), parts, ends))
    for tie in graph.ties:
        for layer in (tie.producer, tie.consumer):
            around[layer].append(counted_from(layer, tie))
    kinds: dict[Hashable, int] = {}
    numbers = [
        kinds.setdefault((layer if named else replace(layer, name=""), *own), len(kinds))
        for layer, own in zip(graph.layers, around, strict=True)
    ]
    count = len(numbers)
    found = np.zeros((count + 1, count + 1), dtype=np.int32)
    same = np.equal.outer(numbers, numbers)
    for layer in reversed(range(count)):
        found[layer, :count] = np.where(same[layer], found[layer + 1, 1:] + 1, 0)
    return found[:count, :count]


def counted_from(start: int, tensor: Tensor) -> Tensor:
    """Return a tensor whose ends are counted from a layer on."""
    if not start:
        return tensor
    return Tensor(
        producer=tensor.producer - start,
        consumer=tensor.consumer - start,
        content=tensor.content,
        number=tensor.number,
        operand=tensor.operand,
    )
