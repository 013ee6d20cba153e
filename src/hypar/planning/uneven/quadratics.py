"""The costs of an uneven split's options for each device group, as quadratics in the group's own share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.costs.base import work
from hypar.sharding.amounts.factors import Offered
from hypar.solve.laid_out import LaidOut, layout_of, level_structure

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from hypar.network.nodes import PlanGraph
    from hypar.planning.uneven.split import Assignment, UnevenSplit
    from hypar.sharding.placement import Options
    from hypar.sharding.uneven.entered import Amount, Entered
    from hypar.solve.cost_graph import Structure

    Array = NDArray[np.float64]

Line = tuple[float, float]
"""A cost over a group's own share: constant and linear coefficient."""


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
        count = len(self.split.groups)
        picked = self._columns[:, layout_of(self._structure).places(assignment)]
        every = np.concatenate([self.rest.reshape(-1, 1), picked], axis=1)
        return np.asarray(np.add.accumulate(every, axis=1)[:, -1].reshape(count, 3))

    def least(self, shares: Sequence[float], weights: Sequence[float]) -> Assignment:
        """Return the options of least weighted sum over the groups, at given shares."""
        # Weights that differ by a power of two have the same sums, bit for bit, up to that power.
        scale = math.frexp(max(weights))[1]
        own = tuple(math.ldexp(weight, -scale) for weight in weights)
        key = (*shares, *own)
        if key not in self.found:
            each = [(row, row * share, row * share * share) for row, share in zip(own, shares, strict=True)]
            summed = (np.ravel(each)[:, None] * self._columns).sum(axis=0)
            self.found[key] = self.split.solver.solve(LaidOut(self._structure, summed)).assignment
        return self.found[key]

    @cached_property
    def _columns(self) -> Array:
        """Return the coefficients of all nodes, then of all edges beside each other, ``[groups * 3, entries]``."""
        rows = 3 * len(self.split.groups)
        return np.concatenate([array.reshape(rows, -1) for array in (*self.nodes, *self.edges)], axis=1)

    @cached_property
    def _structure(self) -> Structure:
        ends = tuple([(tensor.producer, tensor.consumer) for tensor in self.split.graph.tensors])
        return level_structure(tuple([len(own) for own in self.split.options]), ends)


class _Amounts(NamedTuple):
    """The elements of all options of an uneven split at three shares of each group, whatever a group pays for them.

    Attributes:
        nodes: for each layer the place of its options among the entries.
        edges: for each tensor the place of its pairs of options.
        moved: the elements that a group receives in each change of placement, ``[changes, groups, 3, entries]``.
        inner: whether a change adds up partial sums inside a layer, ``[changes, entries]``.
        samples: the three shares of each group, ``[groups, 3]``.
    """

    nodes: tuple[slice, ...]
    edges: tuple[slice, ...]
    moved: Array
    inner: NDArray[np.bool_]
    samples: Array


def quadratics_of(split: UnevenSplit) -> Quadratics:
    """Compute the costs of all options of an uneven split; equal layers and equal tensors share their arrays."""
    count = len(split.groups)
    amounts = _counted(split.graph, split.options, count, split.entered)
    inside, between, once = (
        np.array([getattr(rates, name) for rates in split.rates])[:, None, None]
        for name in ("inside", "between", "once")
    )
    costs = np.zeros(amounts.moved.shape[1:])
    for moved, inner in zip(amounts.moved, amounts.inner, strict=True):
        costs = costs + moved * np.where(inner, inside, between) + once * moved.any(axis=1, keepdims=True)
    found = _coefficients(costs + _computed(split, amounts), amounts.samples)
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
        np.zeros((count, 3)),
    )


def _coefficients(costs: Array, samples: Array) -> Array:
    """Return constant, linear and quadratic coefficients of costs at three shares of each group, ``[groups, 3, entries]``."""
    if len(samples) == 1:
        return np.concatenate([costs[:, :1], np.zeros((1, 2, costs.shape[2]))], axis=1)
    found = np.linalg.inv(samples[:, :, None] ** np.arange(3)) @ costs
    # A cost that does not bend is a line in spite of rounding.
    found[:, 2] = np.where(np.abs(found[:, 2]) > 1e-9 * np.abs(costs).max(axis=1), found[:, 2], 0.0)
    return np.asarray(found)


def _computed(split: UnevenSplit, amounts: _Amounts) -> Array:
    """Return the cost of the computation of all options at the three shares, ``[groups, 3, entries]``."""
    found = np.zeros(amounts.moved.shape[1:])
    done: set[int] = set()
    for layer, options, place in zip(split.graph.layers, split.options, amounts.nodes, strict=True):
        if place.start not in done:
            done.add(place.start)
            for entry, choice in enumerate(options, place.start):
                for group, (rates, shares) in enumerate(zip(split.rates, amounts.samples, strict=True)):
                    if rates.seconds is None:
                        found[group, :, entry] = rates.work * work(layer, choice, shares)
                    else:
                        found[group, :, entry] = [
                            rates.seconds(layer, choice, one) for one in shares.tolist()
                        ]
    return found


@lru_cache(maxsize=32)
def _counted(graph: PlanGraph, options: tuple[Options, ...], count: int, entered: Entered) -> _Amounts:
    """Compute the amounts of ``count`` groups by the state above the split once for all machines."""
    shares = _samples(count)
    offered: dict[Options, Offered] = {}
    for own in options:
        if own not in offered:
            every = np.broadcast_to(shares[:, None], (3, len(own), count))
            offered[own] = Offered(own, np.ascontiguousarray(every))
    blocks: list[tuple[list[Array], list[bool]]] = []
    places: dict[Hashable, slice] = {}

    def place(key: Hashable, size: int, amounts: Callable[[], list[Amount]]) -> slice:
        """Return the place of some entries, which are computed if the key is new."""
        if key not in places:
            found = amounts()
            rows = [amount.elements.reshape(count, 3, -1) for amount in found]
            start = max((own.stop for own in places.values()), default=0)
            blocks.append((rows, [amount.inside for amount in found]))
            places[key] = slice(start, start + size)
        return places[key]

    nodes = []
    for at, (layer, own) in enumerate(zip(graph.layers, options, strict=True)):
        key: Hashable = (layer.nest, entered.network.sums[at], own)
        nodes.append(place(key, len(own), partial(entered.inside, graph, at, offered[own])))
    edges = []
    for at, tensor in enumerate(graph.tensors):
        made, read = options[tensor.producer], options[tensor.consumer]
        reader, *about = entered.tensor(graph, at)
        amounts = partial(entered.between, graph, at, offered[made], offered[read])
        edges.append(place((reader, *map(id, about), made, read), len(made) * len(read), amounts))
    return _joined(tuple(nodes), tuple(edges), [*places.values()], blocks, shares.T)


def _joined(
    nodes: tuple[slice, ...],
    edges: tuple[slice, ...],
    places: Sequence[slice],
    blocks: Sequence[tuple[list[Array], list[bool]]],
    samples: Array,
) -> _Amounts:
    """Return the amounts of some blocks of entries beside each other."""
    most = max((len(rows) for rows, _ in blocks), default=0)
    entries = max((own.stop for own in places), default=0)
    moved = np.zeros((most, len(samples), 3, entries))
    inner = np.zeros((most, entries), bool)
    for own, (rows, inside_layer) in zip(places, blocks, strict=True):
        for change, (elements, sums) in enumerate(zip(rows, inside_layer, strict=True)):
            moved[change, :, :, own] = elements
            inner[change, own] = sums
    return _Amounts(nodes, edges, moved, inner, samples)


def _samples(count: int) -> Array:
    """Return three sets of shares, in which every group has three different ones, ``[3, groups]``."""
    if count == 1:
        return np.ones((3, 1))
    if count == 2:
        return np.array([[0.25, 0.75], [0.5, 0.5], [0.75, 0.25]])
    weights = np.arange(count, 2.0 * count)
    return np.asarray(np.stack([np.roll(weights, turn) for turn in range(3)]) / weights.sum())
