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
from hypar.network.nodes import Content, PlanNode, Tensor, kept_with_graph
from hypar.sharding.dims import SPATIAL
from hypar.sharding.levels import TENSORS, LocalSizes
from hypar.sharding.rates import elements_listed
from hypar.sharding.transfers import simple
from hypar.solve.laid_out import LaidOut, layout_of, level_structure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.costs.base import Cost, Items, MovingCost
    from hypar.network.nodes import PlanGraph
    from hypar.ops.nest import Nest
    from hypar.sharding.levels import Level
    from hypar.sharding.placement import Options
    from hypar.solve.cost_graph import CostGraph, Structure
    from hypar.solve.edge import Costs, Indices


class LayerGroup(NamedTuple):
    """Layers of equal roles with equal options.

    Attributes:
        members: their indices.
        unit: a layer of these roles whose tensors have one element each.
        options: the options.
        places: where their costs are in the vector of all costs, ``[layers, options]``.
    """

    members: tuple[int, ...]
    unit: PlanNode
    options: Options
    places: Indices


class TensorGroup(NamedTuple):
    """Tensors between equal dims with equal options.

    Attributes:
        members: their indices.
        readers: the indices of their consumers.
        one: a tensor of one element.
        operand: the operand of their consumers that they are.
        ends: producer and consumer of such a tensor, which the consumer reads as its first input.
        options: the options of both ends.
        places: where their costs are in the vector of all costs, ``[options of producer, tensors, options of consumer]``.
    """

    members: tuple[int, ...]
    readers: tuple[int, ...]
    one: Tensor
    operand: int
    ends: tuple[PlanNode, PlanNode]
    options: tuple[Options, Options]
    places: Indices


class Alike(NamedTuple):
    """The layers and tensors whose costs are computed together, and the structure of the cost graph, whatever their sizes."""

    layers: tuple[LayerGroup, ...]
    tensors: tuple[TensorGroup, ...]
    structure: Structure


class Groups(NamedTuple):
    """The same of a graph, with its elements.

    Attributes:
        alike: the groups.
        of_layers: for each group of layers the elements of each tensor of each layer, ``[tensors, layers]``.
        of_tensors: for each group of tensors the elements of each, ``[tensors]``.
    """

    alike: Alike
    of_layers: tuple[Costs, ...]
    of_tensors: tuple[Costs, ...]


def counts_elements(cost: Cost) -> bool:
    """Return whether transfers cost by their elements alone, not by the shards of grids."""
    return hasattr(cost, "inside") and not cost.direct


@kept_with_graph
def groups_of(graph: PlanGraph, options: tuple[Options, ...], ways: int) -> Groups | None:
    """Return the layers and tensors that cost alike; None if a choice divides several dims or moves whole rows."""
    if not all(_cuts_one_dim(own, ways) for own in set(options)):
        return None
    roles = tuple([layer.nest.unsized for layer in graph.layers])
    moves = tuple(
        [
            _Move(
                one.producer,
                one.consumer,
                one.operand,
                graph.ends(one)[1].nest.unsized if one.operand else roles[one.consumer],
                one.content.contracted,
            )
            for one in graph.tensors
        ]
    )
    alike = _alike(roles, options, moves)
    listed = [elements_listed(layer.nest, layer.output_elements) for layer in graph.layers]
    elements = np.array([tensor.elements for tensor in graph.tensors], dtype=np.float64)
    return Groups(
        alike,
        tuple([np.array([listed[at] for at in own.members], dtype=np.float64).T for own in alike.layers]),
        tuple([elements[list(own.members)] for own in alike.tensors]),
    )


class _Move(NamedTuple):
    """A tensor without its size.

    Attributes:
        producer: index of the layer that writes it.
        consumer: index of the layer that reads it.
        operand: the consumer's operand that it is.
        read: the dims of the consumer, with the tensor as its first input.
        contracted: dims of the producer's output that ops on the way sum over.
    """

    producer: int
    consumer: int
    operand: int
    read: Nest
    contracted: frozenset[str]


@lru_cache(maxsize=64)
def _alike(roles: tuple[Nest, ...], options: tuple[Options, ...], moves: tuple[_Move, ...]) -> Alike:
    """Return what costs alike of layers and tensors without sizes, as the groups of uneven splits have it in common."""
    sizes = tuple([len(own) for own in options])
    structure = level_structure(sizes, tuple([(move.producer, move.consumer) for move in moves]))
    starts = layout_of(structure).starts
    layers = tuple(_layer_groups(roles, options, starts))
    return Alike(layers, tuple(_tensor_groups(roles, options, moves, starts[len(sizes) :])), structure)


def _layer_groups(roles: Sequence[Nest], options: Sequence[Options], starts: Indices) -> Iterator[LayerGroup]:
    alike: dict[tuple[Nest, Options], list[int]] = {}
    for at, pair in enumerate(zip(roles, options, strict=True)):
        alike.setdefault(pair, []).append(at)
    for (role, own), members in alike.items():
        places = starts[members][:, None] + np.arange(len(own))
        yield LayerGroup(tuple(members), _unit(role), own, places)


def _tensor_groups(
    roles: Sequence[Nest], options: Sequence[Options], moves: Sequence[_Move], starts: Indices
) -> Iterator[TensorGroup]:
    alike: dict[object, list[int]] = {}
    for at, move in enumerate(moves):
        ends = (move.producer, move.consumer)
        pair = tuple([options[end] for end in ends])
        key = (*[roles[end] for end in ends], pair, move.contracted, move.operand)
        alike.setdefault(key, []).append(at)
    for members in alike.values():
        first = moves[members[0]]
        pairs = (options[first.producer], options[first.consumer])
        within = np.arange(len(pairs[0]) * len(pairs[1])).reshape(len(pairs[0]), 1, -1)
        yield TensorGroup(
            members=tuple(members),
            readers=tuple([moves[at].consumer for at in members]),
            one=Tensor(producer=0, consumer=1, content=Content(1, first.contracted, ()), number=0),
            operand=first.operand,
            ends=(_unit(roles[first.producer]), _unit(first.read)),
            options=pairs,
            places=starts[members][:, None] + within,
        )


@lru_cache(maxsize=1024)
def _cuts_one_dim(options: Options, ways: int) -> bool:
    """Return whether every choice divides one dim over all devices, none along which windows reach."""
    return all(simple(choice, ways) and {*SPATIAL}.isdisjoint(choice.divided) for choice in options)


def together(
    cost: MovingCost, level: Level, graph: PlanGraph, groups: Groups, sizes: Sequence[LocalSizes]
) -> CostGraph:
    """Return the cost graph of a level, given the sizes of each layer below one tuple of choices."""
    alike = groups.alike
    entries = np.empty(layout_of(alike.structure).size)
    for group, elements in zip(alike.layers, groups.of_layers, strict=True):
        own = [sizes[at] for at in group.members]
        layers = [graph.layers[at] for at in group.members]
        moved = cost.inside(level, group.unit, group.options, _beside(group.unit.nest, own, elements))
        work = work_of(cost, level, layers, group.options, own)
        items = (*moved.values(), *(costs[:, 0] for costs in work.values()))
        entries[group.places] = reduce(np.add, items)
    for pairs, elements in zip(alike.tensors, groups.of_tensors, strict=True):
        left = [sizes[at].read_at(pairs.operand) for at in pairs.readers]
        read = _beside(pairs.ends[1].nest, left, elements)
        entries[pairs.places] = cost.tensor_costs(level, pairs.one, pairs.ends, pairs.options, read)
    return LaidOut(alike.structure, entries)


def work_of(
    cost: MovingCost, level: Level, layers: Sequence[PlanNode], options: Options, sizes: Sequence[LocalSizes]
) -> Items:
    """Return the costs of layers that are no transfers, ``[layers, tuples above, options]`` for each item."""
    if not level.innermost:
        return {}
    known: dict[object, Items] = {}
    works = []
    for layer, own in zip(layers, sizes, strict=True):
        # Equal layers share one nest, and equal sizes are one object.
        key = (id(layer.nest), id(own), measured(cost, layer))
        if key not in known:
            known[key] = cost.work(level, layer, options, own)
        works.append(known[key])
    names = dict.fromkeys(name for work in works for name in work)
    if not names:
        return {}
    nothing = np.zeros((sizes[0].fractions.shape[1], len(options)))
    return {name: np.stack([work.get(name, nothing) for work in works]) for name in names}


def _beside(nest: Nest, sizes: Sequence[LocalSizes], elements: Costs) -> LocalSizes:
    """Return the elements of each tensor, ``[tensors, layers]``, that the levels above leave, for each layer as a tuple."""
    found = np.concatenate([own.fractions for own in sizes], axis=1)
    names = sizes[0].names
    if nest.others:
        tensors = np.concatenate([own.of_tensors(nest) for own in sizes], axis=1)
        rest = [row for row, name in enumerate(names) if name not in nest.tensors]
        names = (*nest.tensors, *(names[row] for row in rest))
        found = np.concatenate([tensors * elements, found[rest]])
    else:
        found[: len(TENSORS)] *= elements
    return LocalSizes(found, any(own.idle for own in sizes), names)


@lru_cache(maxsize=1024)
def _unit(unsized: Nest) -> PlanNode:
    """Return a layer of some dims whose tensors have one element each."""
    dims = dict.fromkeys((dim for tensor in unsized.tensors for dim in sorted(unsized.names[tensor])), 1)
    nest = replace(unsized, sizes=dims, input_elements=1)
    return PlanNode(name="", op_name="", join=False, nest=nest, output_elements=1, trail=(), ahead=())
