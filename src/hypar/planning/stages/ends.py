"""The spans of a network's layers: where stages may begin and end, what a span holds, and what it shares with others."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hypar.errors import OptionError, TableLimitError, shown, suggestion
from hypar.network.nodes import PlanGraph, block_of
from hypar.planning.folding import counted_from
from hypar.sharding.amounts.transfers import sends_back

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import Tensor
    from hypar.sharding.amounts.transfers import Network
    from hypar.solve.edge import Costs

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
    blocks = [*map(block_of, names)]
    first = [at for at, block in enumerate(blocks) if at == 0 or block != blocks[at - 1]]
    if len(first) > MOST_PLACES:
        found = f"found {len(names):,} layers that are cut"
        found += f" in {len(first):,} blocks" if len(first) < len(names) else ""
        raise TableLimitError(
            f"stages: {found}; allowed: {MOST_PLACES:,}; try --starts", len(first), MOST_PLACES
        )
    return (*first, len(names))


def given_bounds(starts: Sequence[str], graph: LayerGraph, nodes: PlanGraph) -> tuple[int, ...]:
    """Return the first layer of each stage, named in order, by its index among the layers that are cut, and the number of these.

    Raises:
        OptionError: a layer does not exist or is not cut, precedes the one named before it, or is named first without
            being the network's first.
    """
    names, index = ([layer.name for layer in own.layers] for own in (graph, nodes))
    for name in starts:
        if name not in names:
            raise OptionError("starts", f"no layer is named {shown(name)}", hint=suggestion(str(name), index))
        at = names.index(name)
        if name not in index and at > names.index(index[0]):
            following = (f", as {other!r}" for other in names[at:] if other in index)
            allowed = f"layers that are cut{next(following, '')}"
            raise OptionError("starts", f"found {name!r}, which stays with the layer before it", allowed)
    # The layers before the first one that is cut start the first stage with it.
    bounds = [index.index(name) if name in index else 0 for name in starts]
    if bounds[0]:
        allowed = f"{index[0]!r} first, as the network begins with it"
        raise OptionError("starts", f"found {starts[0]!r} first", allowed)
    for place, (before, after) in enumerate(pairwise(bounds)):
        if before >= after:
            found = f"found {starts[place + 1]!r} behind {starts[place]!r}"
            raise OptionError("starts", found, "first layers of stages, in the network's order")
    return (*bounds, len(index))


def span_of(graph: PlanGraph, start: int, end: int, network: Network | None = None) -> PlanGraph:
    """Return the layers from ``start`` up to ``end``, with the tensors between them.

    The transfers of the network, if given, tell the layers that send errors to others.
    """
    inside, sent, fed = [], [], []
    for at, tensor in enumerate(graph.tensors):
        makes, reads = (start <= layer < end for layer in (tensor.producer, tensor.consumer))
        if makes and reads:
            inside.append(counted_from(start, tensor))
        elif makes:
            sent.append(tensor.producer - start)
        elif reads and network is not None and sends_back(network.parts[at]):
            fed.append(tensor.consumer - start)
    ties = () if network is None else _ties_inside(graph, start, end)
    return PlanGraph(
        graph.layers[start:end], tuple(inside), sent=frozenset(sent), fed=frozenset(fed), ties=ties
    )


def tied_outside(ties: Sequence[Tensor], start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return the layers of a span whose weight others use as well, and the number of stages that send them terms, or their sum.

    The stage of the weight's own layer gets terms from every other one, each in a stage of its own, and each of these its sum.
    """
    inside = range(start, end)
    own = Counter(
        tie.producer - start for tie in ties if tie.consumer not in inside if tie.producer in inside
    )
    uses = (tie.consumer - start for tie in ties if tie.consumer in inside if tie.producer not in inside)
    return (*own.items(), *((layer, 1) for layer in uses))


def _ties_inside(graph: PlanGraph, start: int, end: int) -> tuple[Tensor, ...]:
    """Return the weights that several of the layers from ``start`` up to ``end`` use, each from the first of these."""
    firsts: dict[int, int] = {}
    for tie in graph.ties:
        own = (layer for layer in (tie.producer, tie.consumer) if start <= layer < end)
        firsts[tie.producer] = min((firsts.get(tie.producer, end), *own))
    inside = (tie for tie in graph.ties if firsts[tie.producer] < tie.consumer < end)
    return tuple(counted_from(start, tie._replace(producer=firsts[tie.producer])) for tie in inside)


def read_outside(graph: PlanGraph, start: int, end: int) -> tuple[Tensor, ...]:
    """Return the tensors that these layers read of earlier layers, whose indices are negative, and those that later ones read."""
    ends = ((one, start <= one.producer < end, start <= one.consumer < end) for one in graph.tensors)
    return tuple(counted_from(start, one) for one, makes, reads in ends if makes != reads)


def crossing(graph: PlanGraph) -> Costs:
    """Return the elements of F that cross each place between layers, each once, ``[layers + 1]``; E has as many."""
    found: list[dict[int, float]] = [{} for _ in range(len(graph.layers) + 1)]
    for tensor in graph.tensors:
        for place in range(tensor.producer + 1, tensor.consumer + 1):
            found[place][tensor.producer] = max(found[place].get(tensor.producer, 0), tensor.elements)
    return np.array([math.fsum(at.values()) for at in found])
