"""Shares of their own for the layers of a fork, with the re-layout between unlike ones charged.

A layer may have the fork's common shares, those that balance it by itself, or be on one side alone, whose weights
then need no exchange. An exact solver picks for some weights of the sides, and the weights follow which of them are
slow. The result is the best that was met: never worse than the common shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.transfers import dim_of
from hypar.sharding.uneven.remainder import whole_shares
from hypar.sharding.uneven.transfers import work
from hypar.solve.balance import balance

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from hypar.network.contraction import CutLayer, Tensor
    from hypar.planning.uneven.common_shares import Decision
    from hypar.planning.uneven.fork import Assignment, Fork
    from hypar.planning.uneven.quadratics import Array, Quadratics
    from hypar.sharding.placement import Choice
    from hypar.sharding.uneven.transfers import Shares

MOST_TURNS = 24
"""Times that the sides are weighed anew."""


class Offer(NamedTuple):
    """What a layer may do: one of its options, with some shares."""

    pick: int
    choice: Choice
    shares: Shares


Settled = tuple[Offer, ...]
"""What every layer does."""


def settled(fork: Fork, assignment: Assignment, shares: Shares, *, integral: bool) -> Settled:
    """What every layer does with common shares, of whole elements where that is asked for."""
    rows = zip(fork.graph.layers, fork.options, assignment, strict=True)
    kept: dict[Shares, Shares] = {}
    offers = []
    for layer, options, pick in rows:
        own = rounded(layer, options[pick], shares) if integral else shares
        offers.append(Offer(pick, options[pick], kept.setdefault(own, own)))
    return tuple(offers)


def rounded(layer: CutLayer, choice: Choice, shares: Shares) -> Shares:
    """Shares of whole elements of the dim that a layer is cut in; a side without any keeps none."""
    dim = dim_of(choice)
    if dim is None:
        return shares
    at_work = [share for share in shares if share]
    found = iter(whole_shares(layer.einsum.sizes[dim], at_work))
    return tuple(next(found) if share else share for share in shares)


def settled_costs(fork: Fork, offers: Settled) -> tuple[Array, Array]:
    """What each layer, with the tensors that it reads, costs each side to receive and to compute.

    Returns:
        ``[sides, layers]`` both.
    """
    nodes, edges = ByLayer(fork, tuple((offer,) for offer in offers)).arrays()
    computed = np.array(
        [
            [
                rates.work * work(layer, offer.choice, share)
                for rates, share in zip(fork.rates, offer.shares, strict=True)
            ]
            for layer, offer in zip(fork.graph.layers, offers, strict=True)
        ]
    ).T
    received = np.stack([node[:, 0] for node in nodes], axis=1) - computed
    for tensor, edge in zip(fork.graph.tensors, edges, strict=True):
        received[:, tensor.consumer] += edge[:, 0, 0]
    return np.maximum(received, 0.0), computed


def by_layer(every: Quadratics, decision: Decision, *, integral: bool) -> Settled:
    """The best shares met for each layer, from those of a decision on.

    Args:
        every: all options of the fork, whose cost is that of the slowest side.
        decision: common shares.
        integral: whether shares are of whole elements.
    """
    start = settled(every.fork, decision.assignment, decision.shares, integral=integral)
    offered = tuple(
        tuple(_offers(every, index, offer, integral=integral)) for index, offer in enumerate(start)
    )
    return ByLayer(every.fork, offered).best()


def _offers(every: Quadratics, index: int, start: Offer, *, integral: bool) -> Iterator[Offer]:
    """What a layer may do: as it does, or any option with common shares, balanced ones, or on one side alone."""
    layer, options = every.fork.graph.layers[index], every.fork.options[index]
    sides = len(every.fork.sides)
    alone = [tuple(float(side == own) for side in range(sides)) for own in range(sides)]
    times = every.nodes[index]
    made = {start: None}
    for pick, choice in enumerate(options):
        own = balance(times[:, :, pick])
        for shares in (start.shares, own, *alone):
            if shares is not None and (dim_of(choice) is not None or shares == start.shares):
                whole = rounded(layer, choice, shares) if integral else shares
                made[Offer(pick, choice, whole)] = None
    yield from made


@dataclass(frozen=True, eq=False)
class ByLayer:
    """The layers of a fork, each with what it may do.

    Attributes:
        fork: the fork.
        offered: of each layer; the first of each are the common shares.
    """

    fork: Fork
    offered: tuple[tuple[Offer, ...], ...]

    def arrays(self) -> tuple[list[Array], list[Array]]:
        """Costs of each side: of each layer ``[sides, offers]``, of each tensor ``[sides, of producer, of consumer]``."""
        kept: dict[Hashable, Array] = {}
        nodes, edges = [], []
        for layer, offers in zip(self.fork.graph.layers, self.offered, strict=True):
            key: Hashable = (layer.einsum, layer.output_elements, offers)
            if key not in kept:
                rows = [self.fork.layer_costs(layer, offer.choice, offer.shares) for offer in offers]
                kept[key] = np.array(rows, dtype=np.float64).T
            nodes.append(kept[key])
        for tensor in self.fork.graph.tensors:
            (made, read), pair = (
                self.fork.ends(tensor),
                (self.offered[tensor.producer], self.offered[tensor.consumer]),
            )
            key = (made.einsum, read.einsum, tensor.content, pair)
            if key not in kept:
                kept[key] = self._edge(tensor, pair)
            edges.append(kept[key])
        return nodes, edges

    def _edge(self, tensor: Tensor, pair: tuple[tuple[Offer, ...], tuple[Offer, ...]]) -> Array:
        """All pairs of offers of a tensor's ends."""
        rows = [
            [
                self.fork.tensor_costs(tensor, (made.choice, read.choice), _alike(made.shares, read.shares))
                for read in pair[1]
            ]
            for made in pair[0]
        ]
        return np.moveaxis(np.array(rows, dtype=np.float64), -1, 0)

    def best(self) -> Settled:
        """Of the assignments for some weights of the sides the cheapest; the common shares where none is cheaper."""
        nodes, edges = self.arrays()
        weights = np.ones(len(self.fork.sides))
        found: tuple[float, Assignment] | None = None
        tried: Assignment = (0,) * len(self.offered)
        for _ in range(MOST_TURNS):
            each = self._of_sides(nodes, edges, tried)
            cost = self.fork.total(each.tolist())
            if found is None or cost < found[0] * (1 - 1e-12):
                found = (cost, tried)
            weights = weights * (each / each.mean()) ** 2 if each.all() else weights
            weighed = weights / weights.sum()
            tried = self.fork.least(
                [np.tensordot(weighed, node, 1) for node in nodes],
                [np.tensordot(weighed, edge, 1) for edge in edges],
            )
        assert found is not None  # noqa: S101 (there is a turn)
        return tuple(offers[pick] for offers, pick in zip(self.offered, found[1], strict=True))

    def _of_sides(self, nodes: list[Array], edges: list[Array], assignment: Assignment) -> Array:
        """What each side costs altogether."""
        found = sum((node[:, pick] for node, pick in zip(nodes, assignment, strict=True)), np.zeros(1))
        for tensor, edge in zip(self.fork.graph.tensors, edges, strict=True):
            found = found + edge[:, assignment[tensor.producer], assignment[tensor.consumer]]
        return np.asarray(found)


def _alike(made: Shares, read: Shares) -> tuple[Shares, Shares]:
    """Two layers' shares, one object where they are equal."""
    return (made, made) if made == read else (made, read)
