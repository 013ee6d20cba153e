"""The amounts of one plan: the elements of every transfer, layer by layer and level by level."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import OptionError
from hypar.sharding.amounts.above import between_of
from hypar.sharding.amounts.factors import Between, factors_of, plain
from hypar.sharding.amounts.flows import Sums, flows_of
from hypar.sharding.amounts.inside import added, computing
from hypar.sharding.amounts.products import OUTERMOST, Part, below, names_of, parts_of, received
from hypar.sharding.conventions import FUSED, MOVED
from hypar.sharding.levels import TENSORS, WHOLE_LAYER, WORKING, LocalSizes, levels_of
from hypar.sharding.redistribution import COLLECTIVES
from hypar.sharding.transfers import PHASE_OF

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.contraction import ContractedGraph
    from hypar.network.ops.base import Einsum
    from hypar.sharding.placement import Options

RESIDUE = 1e-9
"""Fraction of a tensor below which nothing is received."""


class Received(NamedTuple):
    """A transfer at one level.

    Attributes:
        level: the level, 0 for the outermost.
        phase: the phase that it belongs to.
        tensor: ``weight``, ``output`` or ``input`` of the layer; between two layers ``input``, which the consumer reads,
            or ``output``, which the producer makes.
        collective: the collective.
        elements: elements that all devices receive.
        receivers: number of groups of the next level that receive.
        inside: whether partial sums of a layer are added up.
    """

    level: int
    phase: str
    tensor: str
    collective: str
    elements: float
    receivers: int
    inside: bool


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
    graph: ContractedGraph, array: Sequence[int], choices: Sequence[Options], convention: str
) -> list[Amount]:
    """Return the amounts of a plan under ``moved`` or ``fused``.

    Args:
        graph: the layers.
        array: ways of each level, outermost first.
        choices: for each layer a choice at each level.
        convention: ``moved`` or ``fused``.

    Raises:
        OptionError: it is another convention.

    Examples:
        >>> from hypar import load_model
        >>> from hypar.sharding.placement import cut
        >>> sfc = load_model("sfc").contracted
        >>> found = amounts(sfc, (2,), [(cut("in_channels", 2),)] * 4, "moved")
        >>> [tuple(one) for one in found if one.layer == ("fc1", "fc2")]
        [(('fc1', 'fc2'), 0, 'backward', 'input', 2097152.0)]
    """
    if convention not in {MOVED, FUSED}:
        raise OptionError("convention", f"found {convention!r}", f"{MOVED}, {FUSED}")
    ways, flows = tuple(array), flows_of(graph, convention)
    found = []
    for layer, sums, own in zip(graph.layers, flows.sums, choices, strict=True):
        moves = received_inside(layer.einsum, sums, ways, own)
        found += [Amount(layer.name, one.level, one.phase, one.tensor, one.elements) for one in moves]
    for tensor, flow in zip(graph.tensors, flows.tensors, strict=True):
        made, read = graph.layers[tensor.producer], graph.layers[tensor.consumer]
        between, pair = between_of(graph, tensor, flow), (choices[tensor.producer], choices[tensor.consumer])
        moves = received_between((made.einsum, read.einsum), between, parts_of(flow, between), ways, pair)
        for one in moves:
            place = made.name if one.inside else (made.name, read.name)
            found.append(Amount(place, one.level, one.phase, one.tensor, one.elements))
    return found


@lru_cache(maxsize=16384)
def received_inside(
    einsum: Einsum, sums: Sums, array: tuple[int, ...], chosen: Options
) -> tuple[Received, ...]:
    """Return the transfers of all levels inside a layer, innermost first, so that wider groups exchange sums."""
    found = []
    for level, sizes, choice in zip(levels_of(array, 1), _left(einsum, array, chosen), chosen, strict=False):
        summed = computing(einsum.roles, (choice,), level.ways)[:, 0, 1] > 0
        receivers = round(level.groups * sizes.of(WORKING)[0]) * choice.devices(level.ways)
        here = added(einsum, (choice,), sizes, level, sums)[:, 0, 0].tolist()
        for tensor, elements, whole in zip(TENSORS, here, summed.tolist(), strict=True):
            if elements:
                kind = "all_reduce" if whole else "neighbours"
                found.append(Received(level.index, PHASE_OF[tensor], tensor, kind, elements, receivers, True))
    return tuple(reversed(found))


@lru_cache(maxsize=16384)
def received_between(
    ends: tuple[Einsum, Einsum],
    between: Between,
    parts: tuple[Part, ...],
    array: tuple[int, ...],
    chosen: tuple[Options, Options],
) -> tuple[Received, ...]:
    """Return the transfers of a tensor between two layers at all levels, in the order of its parts, outermost first."""
    products, names = OUTERMOST, names_of(parts)
    found: list[list[Received]] = [[] for _ in parts]
    left = [_left(einsum, array, own) for einsum, own in zip(ends, chosen, strict=True)]
    for level in levels_of(array, 1):
        pair = ((chosen[0][level.index],), (chosen[1][level.index],))
        manners = plain(between, pair, level.ways).manners
        here = factors_of(ends, between, pair, left[1][level.index], level.ways)
        for own, part in zip(found, parts, strict=True):
            elements = float(received(part, products, here.growth)[0, 0])
            if elements > RESIDUE * part.changes[0].elements:
                kind = COLLECTIVES[getattr(manners, part.manner)[0, 0]]
                end = int(part.forward)
                groups = round(level.groups * left[end][level.index].of(WORKING)[0])
                receivers = groups * pair[end][0].devices(level.ways)
                own.append(
                    Received(level.index, part.phase, part.tensor, kind, elements, receivers, part.inside)
                )
        products = below(products, here.factors, names)
    return tuple(one for own in found for one in own)


@lru_cache(maxsize=16384)
def _left(einsum: Einsum, array: tuple[int, ...], chosen: Options) -> tuple[LocalSizes, ...]:
    """Return a layer's sizes above each level."""
    found = [WHOLE_LAYER]
    for choice, ways in zip(chosen, array, strict=True):
        found.append(found[-1].divided(einsum, (choice,), ways))
    return tuple(found)
