"""Layers of equal roles, and tensors between equal dims, as the tuples of one layer and of one tensor.

A cost of the elements that are moved takes the elements that the levels above leave of a tensor, whichever layer's they
are. With the elements of each layer in the place of a fraction of one layer's, many layers are one call.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.costs.base import measured
from hypar.network.contraction import Content, CutLayer, Tensor, kept_with_graph
from hypar.sharding.dims import SPATIAL
from hypar.sharding.levels import TENSORS, LocalSizes
from hypar.sharding.rates import elements_listed
from hypar.sharding.transfers import simple
from hypar.solve.laid_out import LaidOut, layout_of, level_structure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.costs.base import Cost, Items, MovingCost
    from hypar.network.contraction import ContractedGraph
    from hypar.network.einsum import Einsum
    from hypar.sharding.levels import Level
    from hypar.sharding.placement import Options
    from hypar.solve.cost_graph import CostGraph, Structure
    from hypar.solve.edge import Costs, Indices


class LayerGroup(NamedTuple):
    """Layers of equal roles with equal options.

    Attributes:
        members: their indices.
        layers: the layers.
        options: the options.
        elements: the elements of each tensor of each layer, ``[tensors, layers]``.
        places: where their costs are in the vector of all costs, ``[layers, options]``.
    """

    members: tuple[int, ...]
    layers: tuple[CutLayer, ...]
    options: Options
    elements: Costs
    places: Indices


class TensorGroup(NamedTuple):
    """Tensors between equal dims with equal options.

    Attributes:
        members: their indices.
        readers: the indices of their consumers.
        one: a tensor of one element.
        ends: producer and consumer of such a tensor.
        read: the consumer of one of them, with the tensor as its first input.
        options: the options of both ends.
        elements: the elements of each tensor, ``[tensors]``.
        places: where their costs are in the vector of all costs, ``[options of producer, tensors, options of consumer]``.
    """

    members: tuple[int, ...]
    readers: tuple[int, ...]
    one: Tensor
    ends: tuple[CutLayer, CutLayer]
    read: Einsum
    options: tuple[Options, Options]
    elements: Costs
    places: Indices


class Groups(NamedTuple):
    """The layers and tensors of a graph whose costs are computed together, and the structure of its cost graph."""

    layers: tuple[LayerGroup, ...]
    tensors: tuple[TensorGroup, ...]
    structure: Structure


def counts_elements(cost: Cost) -> bool:
    """Return whether transfers cost by their elements alone, not by the shards of grids."""
    return hasattr(cost, "inside") and not cost.direct


@kept_with_graph
def groups_of(graph: ContractedGraph, options: tuple[Options, ...], ways: int) -> Groups | None:
    """Return the layers and tensors that cost alike; None if a choice divides several dims or moves whole rows."""
    if not all(_cuts_one_dim(own, ways) for own in set(options)):
        return None
    sizes = tuple([len(own) for own in options])
    ends = tuple([(tensor.producer, tensor.consumer) for tensor in graph.tensors])
    structure = level_structure(sizes, ends)
    starts = layout_of(structure).starts
    layers = tuple(_layer_groups(graph, options, starts))
    return Groups(layers, tuple(_tensor_groups(graph, options, starts[len(sizes) :])), structure)


def _layer_groups(
    graph: ContractedGraph, options: Sequence[Options], starts: Indices
) -> Iterator[LayerGroup]:
    alike: dict[object, list[int]] = {}
    for at, (layer, own) in enumerate(zip(graph.layers, options, strict=True)):
        alike.setdefault((layer.einsum.unsized(), own), []).append(at)
    for members in alike.values():
        layers = tuple([graph.layers[at] for at in members])
        elements = [elements_listed(layer.einsum, layer.output_elements) for layer in layers]
        own = options[members[0]]
        places = starts[members][:, None] + np.arange(len(own))
        yield LayerGroup(tuple(members), layers, own, np.array(elements, dtype=np.float64).T, places)


def _tensor_groups(
    graph: ContractedGraph, options: Sequence[Options], starts: Indices
) -> Iterator[TensorGroup]:
    alike: dict[object, list[int]] = {}
    for at, tensor in enumerate(graph.tensors):
        ends = (tensor.producer, tensor.consumer)
        roles = tuple([graph.layers[end].einsum.unsized() for end in ends])
        pair = tuple([options[end] for end in ends])
        alike.setdefault((roles, pair, tensor.content.contracted, tensor.operand), []).append(at)
    for members in alike.values():
        tensors = [graph.tensors[at] for at in members]
        first = tensors[0]
        made, read = (end.einsum for end in graph.ends(first))
        pairs = (options[first.producer], options[first.consumer])
        within = np.arange(len(pairs[0]) * len(pairs[1])).reshape(len(pairs[0]), 1, -1)
        yield TensorGroup(
            members=tuple(members),
            readers=tuple([tensor.consumer for tensor in tensors]),
            one=Tensor(producer=0, consumer=1, content=Content(1, first.content.contracted, ()), number=0),
            ends=(_unit(made.unsized()), _unit(read.unsized())),
            read=read,
            options=pairs,
            elements=np.array([tensor.elements for tensor in tensors], dtype=np.float64),
            places=starts[members][:, None] + within,
        )


@lru_cache(maxsize=1024)
def _cuts_one_dim(options: Options, ways: int) -> bool:
    """Return whether every choice divides one dim over all devices, none along which windows reach."""
    return all(simple(choice, ways) and {*SPATIAL}.isdisjoint(choice.divided) for choice in options)


def together(
    cost: MovingCost, level: Level, graph: ContractedGraph, groups: Groups, sizes: Sequence[LocalSizes]
) -> CostGraph:
    """Return the cost graph of a level, given the sizes of each layer below one tuple of choices."""
    entries = np.empty(layout_of(groups.structure).size)
    for group in groups.layers:
        entries[group.places] = _of_layers(cost, level, group, [sizes[at] for at in group.members])
    for pairs in groups.tensors:
        left = [sizes[at].read_at(graph.tensors[pairs.members[0]].operand) for at in pairs.readers]
        elements = _beside(pairs.read, left, pairs.elements)
        entries[pairs.places] = cost.tensor_costs(level, pairs.one, pairs.ends, pairs.options, elements)
    return LaidOut(groups.structure, entries)


def _of_layers(cost: MovingCost, level: Level, group: LayerGroup, sizes: Sequence[LocalSizes]) -> Costs:
    """Return the costs of layers of equal roles, each below one tuple, ``[layers, options]``."""
    einsum = group.layers[0].einsum
    moved = cost.inside(level, _unit(einsum.unsized()), group.options, _beside(einsum, sizes, group.elements))
    work = work_of(cost, level, group.layers, group.options, sizes)
    return reduce(np.add, (*moved.values(), *(costs[:, 0] for costs in work.values())))


def work_of(
    cost: MovingCost, level: Level, layers: Sequence[CutLayer], options: Options, sizes: Sequence[LocalSizes]
) -> Items:
    """Return the costs of layers that are no transfers, ``[layers, tuples above, options]`` for each item."""
    if not level.innermost:
        return {}
    known: dict[object, Items] = {}
    works = []
    for layer, own in zip(layers, sizes, strict=True):
        # Equal layers share one einsum, and equal sizes are one object.
        key = (id(layer.einsum), id(own), measured(cost, layer))
        if key not in known:
            known[key] = cost.work(level, layer, options, own)
        works.append(known[key])
    names = dict.fromkeys(name for work in works for name in work)
    if not names:
        return {}
    nothing = np.zeros((sizes[0].fractions.shape[1], len(options)))
    return {name: np.stack([work.get(name, nothing) for work in works]) for name in names}


def _beside(einsum: Einsum, sizes: Sequence[LocalSizes], elements: Costs) -> LocalSizes:
    """Return the elements of each tensor, ``[tensors, layers]``, that the levels above leave, for each layer as a tuple."""
    found = np.concatenate([own.fractions for own in sizes], axis=1)
    names = sizes[0].names
    if einsum.others:
        tensors = np.concatenate([own.of_tensors(einsum) for own in sizes], axis=1)
        rest = [row for row, name in enumerate(names) if name not in einsum.tensors]
        names = (*einsum.tensors, *(names[row] for row in rest))
        found = np.concatenate([tensors * elements, found[rest]])
    else:
        found[: len(TENSORS)] *= elements
    return LocalSizes(found, any(own.idle for own in sizes), names)


@lru_cache(maxsize=1024)
def _unit(unsized: Einsum) -> CutLayer:
    """Return a layer of some dims whose tensors have one element each."""
    dims = dict.fromkeys((dim for tensor in unsized.tensors for dim in sorted(unsized.dims(tensor))), 1)
    einsum = replace(unsized, sizes=dims, input_elements=1)
    return CutLayer(name="", op_name="", join=False, einsum=einsum, output_elements=1, trail=(), ahead=())
