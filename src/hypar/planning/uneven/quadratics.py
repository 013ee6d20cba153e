"""The costs of an uneven split's options for each device group, as quadratics in the group's own share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from hypar.network.contraction import CutLayer, Tensor
    from hypar.planning.uneven.split import Assignment, UnevenSplit
    from hypar.sharding.placement import Options
    from hypar.sharding.redistribution import Number
    from hypar.sharding.uneven.transfers import Shares

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


def quadratics_of(split: UnevenSplit) -> Quadratics:
    """Compute the costs of all options of an uneven split; equal layers and equal tensors share their arrays."""
    kept: dict[Hashable, Array] = {}
    nodes = []
    for layer, options in zip(split.graph.layers, split.options, strict=True):
        key: Hashable = (layer.einsum, layer.output_elements, options)
        if key not in kept:
            kept[key] = _node(split, layer, options)
        nodes.append(kept[key])
    edges = []
    for tensor in split.graph.tensors:
        (made, read), pair = (
            split.ends(tensor),
            (split.options[tensor.producer], split.options[tensor.consumer]),
        )
        key = (made.einsum, read.einsum, tensor.content, pair)
        if key not in kept:
            kept[key] = _edge(split, tensor, pair)
        edges.append(kept[key])
    return Quadratics(split, tuple(nodes), tuple(edges), np.zeros((len(split.groups), 3)))


def _node(split: UnevenSplit, layer: CutLayer, options: Options) -> Array:
    """Return the coefficients of all options of a layer."""
    made = [
        _of_groups(split, lambda shares, choice=choice: split.layer_costs(layer, choice, shares))  # type: ignore[misc]
        for choice in options
    ]
    return np.stack(made, axis=-1)


def _edge(split: UnevenSplit, tensor: Tensor, options: tuple[Options, Options]) -> Array:
    """Return the coefficients of all pairs of options of a tensor's producer and consumer."""
    found = np.zeros((len(split.groups), 3, len(options[0]), len(options[1])))
    for row, maker in enumerate(options[0]):
        for column, reader in enumerate(options[1]):
            pair = (maker, reader)
            found[:, :, row, column] = _of_groups(
                split,
                lambda shares, pair=pair: split.tensor_costs(tensor, pair, (shares, shares)),  # type: ignore[misc]
            )
    return found


def _of_groups(split: UnevenSplit, costs: Callable[[Shares], list[Number]]) -> Array:
    """Return the coefficients of a cost function for each group, ``[groups, 3]``."""
    count = len(split.groups)
    rows = []
    for group in range(count):
        shares = tuple(SHARE if other == group else 1 / count for other in range(count))
        rows.append(_coefficients(costs(shares)[group]))
    return np.array(rows)


def _coefficients(cost: Number) -> list[float]:
    """Return the constant, linear and quadratic coefficients of a cost at the three points, or of a constant."""
    if not isinstance(cost, np.ndarray):
        return [float(cost), 0.0, 0.0]
    none, half, whole = cost.tolist()
    bend = 2 * (none - 2 * half + whole)
    return [none, whole - none - bend, bend]
