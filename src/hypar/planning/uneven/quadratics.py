"""The costs of an uneven split's options for each device group, as quadratics in the group's own share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.uneven.transfers import between, inside, work

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from hypar.network.contraction import ContractedGraph
    from hypar.planning.uneven.split import Assignment, UnevenSplit
    from hypar.sharding.placement import Options
    from hypar.sharding.redistribution import Number
    from hypar.sharding.uneven.transfers import Amount

    Array = NDArray[np.float64]

Line = tuple[float, float]
"""A cost over a group's own share: constant and linear coefficient."""

SHARE = np.array([0.0, 0.5, 1.0])
"""The three values of a group's share that determine a quadratic."""


@dataclass(frozen=True, eq=False)
class Quadratics:
    """The costs of all options of an uneven split.

    Attributes:
        split: the uneven split.
        nodes: for each layer ``[groups, 3, options]``: constant, linear and quadratic coefficients.
        edges: for each tensor ``[groups, 3, options of producer, options of consumer]``.
        rest: the cost of each group that does not depend on the options, ``[groups, 3]``.
        found: the assignments of least cost that are known, which do not depend on ``rest``.
    """

    split: UnevenSplit
    nodes: tuple[Array, ...]
    edges: tuple[Array, ...]
    rest: Array
    found: dict[tuple[float, ...], Assignment] = field(default_factory=dict)

    def above(self, lines: Sequence[Line]) -> Quadratics:
        """Add to each group's cost a line over its share."""
        rest = np.zeros((len(lines), 3))
        rest[:, :2] = lines
        return replace(self, rest=rest)

    def times(self, assignment: Assignment) -> Array:
        """Return the total cost of each group, ``[groups, 3]``."""
        found = self.rest.copy()
        for node, pick in zip(self.nodes, assignment, strict=True):
            found += node[:, :, pick]
        for tensor, edge in zip(self.split.graph.tensors, self.edges, strict=True):
            found += edge[:, :, assignment[tensor.producer], assignment[tensor.consumer]]
        return found

    def least(self, shares: Sequence[float], weights: Sequence[float]) -> Assignment:
        """Return the options of least weighted sum over the groups, at given shares."""
        # Weights that differ by a power of two have the same sums, bit for bit, up to that power.
        scale = math.frexp(max(weights))[1]
        own = tuple(math.ldexp(weight, -scale) for weight in weights)
        key = (*shares, *own)
        if key not in self.found:
            each = [(row, row * share, row * share * share) for row, share in zip(own, shares, strict=True)]
            summed = (np.ravel(each)[:, None] * self._columns).sum(axis=0)
            arrays = {name: summed[at].reshape(shape) for name, (at, shape) in self._places.items()}
            self.found[key] = self.split.least(
                [arrays[id(node)] for node in self.nodes], [arrays[id(edge)] for edge in self.edges]
            )
        return self.found[key]

    @cached_property
    def _distinct(self) -> dict[int, Array]:
        return {id(array): array for array in (*self.nodes, *self.edges)}

    @cached_property
    def _columns(self) -> Array:
        """Return the coefficients of all distinct arrays beside each other, ``[groups * 3, entries]``."""
        rows = 3 * len(self.split.groups)
        return np.concatenate([array.reshape(rows, -1) for array in self._distinct.values()], axis=1)

    @cached_property
    def _places(self) -> dict[int, tuple[slice, tuple[int, ...]]]:
        """Return the columns of each distinct array, and the shape of its sum over groups and coefficients."""
        places, start = {}, 0
        for name, array in self._distinct.items():
            shape = array.shape[2:]
            places[name] = (slice(start, start + math.prod(shape)), shape)
            start += math.prod(shape)
        return places


class _Amounts(NamedTuple):
    """The elements and operations of all options of an uneven split at the three shares, whatever a group pays for them.

    Attributes:
        nodes: for each layer the place of its options among the entries.
        edges: for each tensor the place of its pairs of options.
        moved: the elements that a group receives in each change of placement, ``[changes, groups, 3, entries]``.
        computed: the operations of a group, ``[groups, 3, entries]``.
    """

    nodes: tuple[slice, ...]
    edges: tuple[slice, ...]
    moved: Array
    computed: Array


def quadratics_of(split: UnevenSplit) -> Quadratics:
    """Compute the costs of all options of an uneven split; equal layers and equal tensors share their arrays."""
    amounts = _amounts(split.graph, split.options, len(split.groups))
    first_edge = max((place.stop for place in amounts.nodes), default=0)
    of_layers = np.arange(amounts.computed.shape[-1]) < first_edge
    per_element = np.array([np.where(of_layers, rates.inside, rates.between) for rates in split.rates])
    once, work = np.array([(rates.once, rates.work) for rates in split.rates]).T[:, :, None, None]
    costs = np.zeros(amounts.computed.shape)
    for moved in amounts.moved:
        costs = costs + moved * per_element[:, None] + once * moved.any(axis=1, keepdims=True)
    none, half, whole = np.moveaxis(costs + work * amounts.computed, 1, 0)
    bend = 2 * (none - 2 * half + whole)
    found = np.stack([none, whole - none - bend, bend], axis=1)
    arrays: dict[tuple[int, ...], Array] = {}

    def array(place: slice, *options: Options) -> Array:
        shape = (place.start, *map(len, options))
        return arrays.setdefault(shape, found[:, :, place].reshape(*found.shape[:2], *shape[1:]))

    return Quadratics(
        split,
        tuple(array(place, own) for place, own in zip(amounts.nodes, split.options, strict=True)),
        tuple(
            array(place, split.options[tensor.producer], split.options[tensor.consumer])
            for place, tensor in zip(amounts.edges, split.graph.tensors, strict=True)
        ),
        np.zeros((len(split.groups), 3)),
    )


@lru_cache(maxsize=32)
def _amounts(graph: ContractedGraph, options: tuple[Options, ...], count: int) -> _Amounts:
    """Compute the amounts of ``count`` groups once for all machines."""
    unknown = [
        tuple(SHARE if other == group else 1 / count for other in range(count)) for group in range(count)
    ]
    places: dict[Hashable, slice] = {}
    moved: list[list[list[Number]]] = []
    computed: list[Number] = []

    def place(key: Hashable, entries: Iterable[tuple[list[list[Number]], Number]]) -> slice:
        """Return the place of some entries, which are computed if the key is new."""
        if key not in places:
            start = len(moved)
            for changes, operations in entries:
                moved.append(changes)
                computed.append(operations)
            places[key] = slice(start, len(moved))
        return places[key]

    nodes = tuple(
        place(
            (layer.einsum, layer.output_elements, own),
            (
                (
                    [_own(inside(layer, choice, shares), group) for group, shares in enumerate(unknown)],
                    work(layer, choice, SHARE),
                )
                for choice in own
            ),
        )
        for layer, own in zip(graph.layers, options, strict=True)
    )
    edges = []
    for tensor in graph.tensors:
        ends = (graph.layers[tensor.producer], graph.layers[tensor.consumer])
        pair = (options[tensor.producer], options[tensor.consumer])
        edges.append(
            place(
                (ends[0].einsum, ends[1].einsum, tensor.content, pair),
                (
                    (
                        [
                            _own(between(tensor, ends, both, (shares, shares)), group)
                            for group, shares in enumerate(unknown)
                        ],
                        0.0,
                    )
                    for both in product(*pair)
                ),
            )
        )
    operations = np.zeros((count, len(SHARE), len(moved)))
    for entry, own in enumerate(computed):
        operations[:, :, entry] = own
    return _Amounts(nodes, tuple(edges), _stacked(moved, count), operations)


def _stacked(moved: Sequence[Sequence[Sequence[Number]]], count: int) -> Array:
    """Return the elements of each entry, group and change as an array, 0 where there are fewer changes."""
    most = max((len(changes) for entry in moved for changes in entry), default=0)
    elements = np.zeros((most, count, len(SHARE), len(moved)))
    for entry, of_groups in enumerate(moved):
        for group, changes in enumerate(of_groups):
            for change, own in enumerate(changes):
                elements[change, group, :, entry] = own
    return elements


def _own(amounts: Iterable[Amount], group: int) -> list[Number]:
    """Return the elements that one group receives in each change of placement."""
    return [amount.elements[group] for amount in amounts]
