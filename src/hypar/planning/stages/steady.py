"""The choices that a level-by-level search makes in nearly every part of a network, known without a search of each part.

Idea: the layers fall into groups, most of them single layers. If the first best choices of every group alone also make
every tensor between groups as cheap as it can be, they are the first best choices together: each cost is the least that
there is. A part of the network has some of the groups and pieces of others, of which the same is asked.
Guarantee: exact, as costs whose sums are exact are compared; other levels are left out.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from hypar.planning.searches.base import Question
    from hypar.sharding.placement import Options
    from hypar.solve.cost_graph import CostGraph
    from hypar.solve.edge import Costs

MOST_JOINT = 2**10
"""Largest number of joint choices of a group that are tried."""


class Steady(NamedTuple):
    """The choices of the layers of a network, and the spans in which the search makes them.

    Attributes:
        choices: for each layer a choice at each level.
        spans: whether the layers of a span make them, ``[starts, ends]``.
    """

    choices: tuple[Options, ...]
    spans: NDArray[np.bool_]


@lru_cache(maxsize=64)
def steady(question: Question) -> Steady | None:
    """Return the choices of most spans of a network; None if costs depend on the span, or if the search is not exact."""
    _, solver = question.pick_solver(*question.level_structures())
    if question.by_products or not solver.exact:
        return None
    count = len(question.graph.layers)
    spans = np.ones((count, count + 1), dtype=bool)
    sizes, chosen = question.outermost(), []
    for index, level in enumerate(question.levels):
        problem = question.cost_graph(index, index + 1, sizes)
        if problem.summable() is not problem:
            return None
        picks = solver.solve(problem).assignment
        _Level(problem, picks).leave_out(spans)
        chosen.append([options[index][pick] for options, pick in zip(question.options, picks, strict=True)])
        sizes = question.below(sizes, chosen[-1], level.ways)
    return Steady(tuple(zip(*chosen, strict=True)), spans)


class _Others(NamedTuple):
    """The layers of a piece that make other choices in it alone.

    Attributes:
        saved: how much cheaper it is.
        layers: the layers.
    """

    saved: float
    layers: list[int]


class _Level:
    """The costs of a level, of which the whole network makes some choices.

    Attributes:
        problem: the costs.
        picks: the choices.
        known: what a piece saves by other choices, and which of its layers make them, by its costs.
    """

    def __init__(self, problem: CostGraph, picks: Sequence[int]) -> None:
        self.problem, self.picks = problem, picks
        self.edges: dict[tuple[int, int], Costs] = {}
        for edge in problem.joined():
            first, last = sorted((edge.source, edge.target))
            self.edges[first, last] = edge.costs if edge.source == first else edge.costs.T
        self.near: list[set[int]] = [set() for _ in picks]
        for first, last in self.edges:
            self.near[first].add(last)
            self.near[last].add(first)
        self.known: dict[object, tuple[float, list[int]]] = {}

    def leave_out(self, spans: NDArray[np.bool_]) -> None:
        """Mark the spans of which a piece of a group makes other choices."""
        count = len(self.picks)
        for group in self._groups():
            for first, last in combinations(range(len(group) + 1), 2):
                if not self._holds(group[first:last]):
                    starts = slice(group[first - 1] + 1 if first else 0, group[first] + 1)
                    ends = slice(group[last - 1] + 1, group[last] + 1 if last < len(group) else count + 1)
                    spans[starts, ends] = False

    def _groups(self) -> Iterable[list[int]]:
        """Return the groups of layers that do not choose as each would alone, or whose tensors could be cheaper."""
        picks = self.picks
        seeds = [
            {node} for node, costs in enumerate(self.problem.nodes) if int(costs.argmin()) != picks[node]
        ]
        for (first, last), costs in self.edges.items():
            if costs[picks[first], picks[last]] > costs.min():
                seeds.append({first, last})
        groups: list[set[int]] = []
        while seeds:
            group = self._grown(seeds.pop())
            beside = [other for other in groups if other & group]
            groups = [other for other in groups if not other & group]
            if beside:
                seeds.append(group.union(*beside))
            else:
                groups.append(group)
        return map(sorted, groups)

    def _grown(self, group: set[int]) -> set[int]:
        """Return a group with as many layers around it as it takes to hold it to its choices, one after another."""
        while self._few(group):
            others = self._others(sorted(group)).layers
            around = set().union(*(self.near[node] for node in others)) - group
            if not around:
                break
            larger = [group | {node} for node in sorted(around)]
            group = min(
                larger, key=lambda own: self._others(sorted(own)).saved if self._few(own) else math.inf
            )
        return group

    def _few(self, group: Iterable[int]) -> bool:
        return math.prod(self.problem.nodes[node].size for node in group) <= MOST_JOINT

    def _holds(self, group: Sequence[int]) -> bool:
        """Return whether a group alone makes the same choices."""
        return self._few(group) and not self._others(group).layers

    def _others(self, group: Sequence[int]) -> _Others:
        """Return the layers of a group that choose otherwise in it alone: the first best choices, from its last layer back."""
        costs = [self.problem.nodes[node] for node in group]
        inside = [
            (at, other, self.edges[first, last])
            for (at, first), (other, last) in combinations(enumerate(group), 2)
            if (first, last) in self.edges
        ]
        picks = tuple(self.picks[node] for node in group)
        key = (
            picks,
            tuple(own.tobytes() for own in costs),
            tuple((at, other, own.tobytes()) for at, other, own in inside),
        )
        if key not in self.known:
            total = np.zeros([own.size for own in reversed(costs)])
            for at, own in enumerate(costs):
                total += own.reshape(-1, *[1] * at)
            for at, other, own in inside:
                shape = [1] * len(group)
                shape[-1 - at], shape[-1 - other] = own.shape
                total += own.T.reshape(shape)
            found = np.unravel_index(int(total.argmin()), total.shape)[::-1]
            saved = float(total[picks[::-1]] - total.min())
            self.known[key] = saved, [at for at, pick in enumerate(picks) if found[at] != pick]
        saved, places = self.known[key]
        return _Others(saved, [group[at] for at in places])
