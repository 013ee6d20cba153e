"""The costs of an uneven split's options for each device group, as quadratics in the group's own share."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    """

    split: UnevenSplit
    nodes: tuple[Array, ...]
    edges: tuple[Array, ...]
    rest: Array

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
        powers = np.array([[1.0, share, share * share] for share in shares])
        each = powers * np.array(weights)[:, None]
        summed: dict[int, Array] = {}
        for array in (*self.nodes, *self.edges):
            if id(array) not in summed:
                summed[id(array)] = np.tensordot(each, array, 2)
        return self.split.least(
            [summed[id(node)] for node in self.nodes], [summed[id(edge)] for edge in self.edges]
        )


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
