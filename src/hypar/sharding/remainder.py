"""The network that an uneven split leaves to one device group: a network of smaller layers."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from hypar.network.nodes import Content
from hypar.sharding.levels import divided_einsum, divided_size
from hypar.sharding.placement import dim_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.nodes import PlanGraph
    from hypar.sharding.placement import Choice

TINY = 1e-9
"""Difference below which two shares are equal."""


def graph_of_group(
    graph: PlanGraph, choices: Sequence[Choice], shares: Sequence[float], *, integral: bool = False
) -> PlanGraph:
    """Return the network that a device group with given shares computes.

    Divided sizes are real numbers unless the shares are of whole elements. Equal layers with equal shares have
    one nest object, also in different calls, so that what is cached by nest is found again. Tensors that other layers
    read are as they are.

    Args:
        graph: the network before the split.
        choices: the choice of each layer at the split.
        shares: the group's share of each layer.
        integral: whether the shares are of whole elements.
    """
    layers, tensors = [], []
    for layer, choice, share in zip(graph.layers, choices, shares, strict=True):
        dim, nest = dim_of(choice), layer.nest
        own = nest if dim is None else divided_einsum(nest, dim, share, integral=integral)
        made = share if dim in nest.names["output"] else 1
        layers.append(layer.resized(own, divided_size(layer.output_elements, made, integral=integral)))
    for tensor in graph.tensors:
        end, content = tensor.consumer, tensor.content
        dim = dim_of(choices[end]) if end < len(layers) else None
        name = None if dim is None else graph.layers[end].nest.names.get(tensor.operand, {}).get(dim)
        if name is not None:
            part = partial(divided_size, share=shares[end], integral=integral)
            shape = tuple((own, part(size) if own == name else size) for own, size in content.shape)
            content = Content(part(content.elements), content.contracted, shape)
        tensors.append(tensor if name is None else replace(tensor, content=content))
    return graph._replace(layers=tuple(layers), tensors=tuple(tensors))


def whole_ends(size: int, shares: Sequence[tuple[float, float]]) -> list[tuple[int, int]]:
    """Return the ends of shares in whole elements: as even as possible, or by the largest remainders of uneven shares.

    Examples:
        >>> whole_ends(7, [(0, 0.5), (0.5, 1)]), whole_ends(7, [(0, 0.3), (0.3, 1)])
        ([(0, 3), (3, 7)], [(0, 2), (2, 7)])
    """
    widths = [end - start for start, end in shares]
    if max(widths) - min(widths) > TINY and abs(sum(widths) - 1) < TINY:
        shares = [*pairwise(accumulate(whole_shares(size, widths), initial=0.0))]
    return [(int(start * size + TINY), int(end * size + TINY)) for start, end in shares]


def whole_shares(size: int, shares: Sequence[float]) -> tuple[float, ...]:
    """Round shares to whole elements, at least one each; return them as given if no such rounding exists.

    Elements left over by rounding down go to the largest remainders, the first of equal ones.

    Examples:
        >>> whole_shares(512, (0.3, 0.7))
        (0.30078125, 0.69921875)
    """
    if size < len(shares) or not isinstance(size, int):
        return tuple(shares)
    counts = [max(1, math.floor(size * share)) for share in shares]
    while sum(counts) > size:
        counts[counts.index(max(counts))] -= 1
    rest = sorted(range(len(shares)), key=lambda group: counts[group] - size * shares[group])
    for group in rest[: size - sum(counts)]:
        counts[group] += 1
    return tuple(count / size for count in counts)
