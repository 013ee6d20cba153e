"""Find separate shares for each layer of an uneven split, charging the resharding between different shares.

A layer may have the split's common shares, the shares that balance it by itself, or be on one device group alone, whose
weights then need no exchange. An exact solver picks for given weights of the groups, and slow groups then get larger
weights. The result is the best assignment found: never worse than the common shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.amounts.factors import Offered
from hypar.sharding.placement import dim_of
from hypar.solve.balance import balance

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.planning.uneven.common_shares import Decision
    from hypar.planning.uneven.quadratics import Array, Quadratics
    from hypar.planning.uneven.split import Assignment, UnevenSplit
    from hypar.sharding.amounts.windows import Shares
    from hypar.sharding.placement import Choice

MOST_TURNS = 24
"""Largest number of rounds in which the device groups are weighted anew."""


class Offer(NamedTuple):
    """One option of a layer, with the shares of all device groups."""

    pick: int
    choice: Choice
    shares: Shares


Settled = tuple[Offer, ...]
"""The offer that each layer takes."""

Rows = tuple[tuple[float, ...], ...]
"""Costs, ``[groups][layers]``."""


def settled(split: UnevenSplit, assignment: Assignment, shares: Shares) -> Settled:
    """Return the offer of every layer at common shares."""
    rows = zip(split.options, assignment, strict=True)
    return tuple(Offer(pick, options[pick], shares) for options, pick in rows)


def settled_costs(split: UnevenSplit, offers: Settled) -> tuple[Array, Array]:
    """Return the cost of each layer, with the tensors that it reads, for each group to receive and to compute.

    Returns:
        ``[groups, layers]`` both.
    """
    nodes, edges = _tables(split, tuple((offer,) for offer in offers))
    distinct = dict(zip(zip(map(id, nodes), offers, strict=True), split.graph.layers, strict=True))
    works = {key: split.work(layer, _offered((key[1],))) for key, layer in distinct.items()}
    computed = np.concatenate([works[id(own), offer] for own, offer in zip(nodes, offers, strict=True)], 1)
    received = np.concatenate(nodes, axis=1) - computed
    for tensor, edge in zip(split.graph.tensors, edges, strict=True):
        received[:, tensor.consumer] += edge[:, 0, 0]
    return np.maximum(received, 0.0), computed


def rows_of(
    split: UnevenSplit, offers: Sequence[Offer], at_work: Sequence[int], count: int
) -> tuple[Rows, Rows]:
    """Return the cost for each group to receive and to compute each layer; nothing for an idle group."""
    found = np.zeros((2, count, len(offers)))
    found[:, at_work] = settled_costs(split, tuple(offers))
    received, computed = (tuple(map(tuple, rows.tolist())) for rows in found)
    return received, computed


def _tables(split: UnevenSplit, offers: Sequence[tuple[Offer, ...]]) -> tuple[list[Array], list[Array]]:
    """Return the costs of the offers of all layers, and of all tensors."""
    known = {own: _offered(own) for own in dict.fromkeys(offers)}
    return split.tables([known[own] for own in offers])


def _offered(offers: tuple[Offer, ...]) -> Offered:
    return Offered.of([(offer.choice, offer.shares) for offer in offers])


def by_layer(every: Quadratics, decision: Decision) -> Settled:
    """Return the best shares found for each layer, starting from the shares of a decision.

    Args:
        every: all options of an uneven split whose cost is that of its slowest device group.
        decision: the decision with common shares.
    """
    start = settled(every.split, decision.assignment, decision.shares)
    offered = tuple(tuple(_offers(every, index, offer)) for index, offer in enumerate(start))
    return ByLayer(every.split, offered).best()


def _offers(every: Quadratics, index: int, start: Offer) -> Iterator[Offer]:
    """Yield a layer's present offer, then every option with common or balanced shares, or on one group alone."""
    options = every.split.options[index]
    groups = len(every.split.groups)
    alone = [tuple(float(group == own) for group in range(groups)) for own in range(groups)]
    times = every.nodes[index]
    made = {start: None}
    for pick, choice in enumerate(options):
        own = balance(times[:, :, pick])
        for shares in (start.shares, own, *alone):
            if shares is not None and (dim_of(choice) is not None or shares == start.shares):
                made[Offer(pick, choice, shares)] = None
    yield from made


@dataclass(frozen=True, eq=False)
class ByLayer:
    """The layers of an uneven split, each with its offers.

    Attributes:
        split: the uneven split.
        offered: the offers of each layer; the first has the common shares.
    """

    split: UnevenSplit
    offered: tuple[tuple[Offer, ...], ...]

    def best(self) -> Settled:
        """Return the cheapest assignment over several weights of the groups, or the common shares if none is cheaper."""
        nodes, edges = _tables(self.split, self.offered)
        weights = np.ones(len(self.split.groups))
        found: tuple[float, Assignment] | None = None
        tried: Assignment = (0,) * len(self.offered)
        for _ in range(MOST_TURNS):
            each = self._of_groups(nodes, edges, tried)
            cost = self.split.total(each.tolist())
            if found is None or cost < found[0] * (1 - 1e-12):
                found = (cost, tried)
            weights = weights * (each / each.mean()) ** 2 if each.all() else weights
            weighed = weights / weights.sum()
            tried = self.split.least(
                [np.tensordot(weighed, node, 1) for node in nodes],
                [np.tensordot(weighed, edge, 1) for edge in edges],
            )
        assert found is not None  # noqa: S101 (there is a turn)
        return tuple(offers[pick] for offers, pick in zip(self.offered, found[1], strict=True))

    def _of_groups(self, nodes: list[Array], edges: list[Array], assignment: Assignment) -> Array:
        """Return the total cost of each device group."""
        found = sum((node[:, pick] for node, pick in zip(nodes, assignment, strict=True)), np.zeros(1))
        for tensor, edge in zip(self.split.graph.tensors, edges, strict=True):
            found = found + edge[:, assignment[tensor.producer], assignment[tensor.consumer]]
        return np.asarray(found)
