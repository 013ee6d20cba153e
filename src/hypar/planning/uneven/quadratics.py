"""The costs of an uneven split's options for each device group, as quadratics in the group's own share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.amounts.factors import Offered
from hypar.solve.laid_out import LaidOut, layout_of, level_structure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hypar.planning.uneven.split import Assignment, UnevenSplit
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


def quadratics_of(split: UnevenSplit) -> Quadratics:
    """Compute the costs of all options of an uneven split at three shares of each group; equal ones share their arrays."""
    count = len(split.groups)
    shares = _samples(count)
    offered = {
        own: Offered(own, np.repeat(shares[:, None], len(own), axis=1))
        for own in dict.fromkeys(split.options)
    }
    nodes, edges = split.tables([offered[own] for own in split.options])
    distinct = {id(costs): costs for costs in (*nodes, *edges)}
    fitted = {key: _coefficients(costs, shares.T) for key, costs in distinct.items()}
    of_layers, of_tensors = (tuple([fitted[id(costs)] for costs in own]) for own in (nodes, edges))
    return Quadratics(split, of_layers, of_tensors, np.zeros((count, 3)))


def _coefficients(costs: Array, samples: Array) -> Array:
    """Return constant, linear and quadratic coefficients of costs at some shares of each group, ``[groups, 3, ...]``."""
    count, known = samples.shape
    flat = costs.reshape(count, known, math.prod(costs.shape[2:]))
    found = np.linalg.inv(samples[:, :, None] ** np.arange(known)) @ flat
    found = np.pad(found, ((0, 0), (0, 3 - known), (0, 0)))
    # A cost that does not bend is a line in spite of rounding.
    found[:, 2] = np.where(np.abs(found[:, 2]) > 1e-9 * np.abs(flat).max(axis=1), found[:, 2], 0.0)
    return found.reshape(count, 3, *costs.shape[2:])


def _samples(count: int) -> Array:
    """Return three sets of shares, in which every group has three different ones, ``[3, groups]``; one of a single group."""
    if count == 1:
        return np.ones((1, 1))
    if count == 2:
        return np.array([[0.25, 0.75], [0.5, 0.5], [0.75, 0.25]])
    weights = np.arange(count, 2.0 * count)
    return np.asarray(np.stack([np.roll(weights, turn) for turn in range(3)]) / weights.sum())
