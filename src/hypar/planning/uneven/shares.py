"""Find the shares of the device groups of an uneven split, together with the choices: one for each group, or others for single layers.

Given shares, an exact solver finds the choices of least weighted sum; given choices, the shares that minimise the time
of the slowest group follow exactly. Both steps alternate until nothing changes, from several starts. The result is a
fixed point, not a proven optimum, and never worse than equal shares, which are one of the starts. A group weighs
``1 / T_i'``, from the conditions for a minimum of ``max T_i`` over shares that sum to 1: the slower its time grows
with its share, the more work a shorter time lets it take over. Source: AccPar (HPCA 2020), whose types depend on the
ratio, and the ratio on the types.

A layer may have the split's common shares, the shares that balance it by itself, or be on one device group alone, whose
weights then need no exchange. An exact solver picks for given weights of the groups, and slow groups then get larger
weights. The result is the best assignment found: never worse than the common shares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.planning.uneven.split import Quadratics
from hypar.sharding.amounts.factors import Offered
from hypar.sharding.placement import dim_of
from hypar.solve.balance import balance, linear, times_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.planning.uneven.split import Array, Assignment, Line, UnevenSplit
    from hypar.sharding.amounts.factors import Taken

MOST_TURNS = 20
"""Largest number of rounds in which choices and shares are found from each other."""


class Decision(NamedTuple):
    """The choices and shares of an uneven split.

    Attributes:
        cost: the cost of its slowest device group, or the sum over all of them.
        assignment: one option for each layer.
        shares: the share of each working group.
    """

    cost: float
    assignment: Assignment
    shares: tuple[float, ...]


def best(decisions: Sequence[Decision]) -> Decision:
    """Return the cheapest decision; ties go to the first options."""
    return min(decisions, key=lambda one: (one.cost, one.assignment))


def search(
    every: Quadratics,
    rule: str,
    most: Sequence[float] | None = None,
    below: Sequence[Line] | None = None,
) -> tuple[Decision, ...]:
    """Return the decisions of all rounds whose shares are allowed, in the order in which they were found.

    Args:
        every: all options of the uneven split.
        rule: one of ``SHARES``: ``linear`` is AccPar's, ``exact`` minimises the slowest group's time.
        most: the largest share of each group; no limit if not given. Shares beyond it are balanced within it.
        below: the further cost of each group as a line over its share; nothing if not given.
    """
    every = every if below is None else every.above(below)
    split, count = every.split, len(every.split.rates)
    even = (1 / count,) * count
    fixed = rule == "equal" or count == 1 or not split.slowest
    starts = list(_starts(every, even))
    if fixed:
        allowed = most is None or all(share <= limit for share, limit in zip(even, most, strict=True))
        return tuple(_decided(every, start, even) for start in starts) if allowed else ()
    speeds = np.array([1 / rates.work if rates.work else 1.0 for rates in split.rates])
    proportional = tuple((speeds / speeds.sum()).tolist())
    starts += _starts(every, proportional)
    seen: set[Assignment] = set()
    return tuple(turn for start in starts for turn in _turns(every, start, rule, most, seen))


def _starts(every: Quadratics, shares: tuple[float, ...]) -> Iterator[Assignment]:
    """Yield the best choices at given shares for equal weights, for weights as the shares, and for each group alone."""
    count = len(shares)
    weights = [(1.0,) * count]
    if every.split.slowest and count > 1:
        weights += [shares, *map(tuple, np.eye(count).tolist())]
    for own in dict.fromkeys(weights):
        yield every.least(shares, own)


def _turns(
    every: Quadratics, assignment: Assignment, rule: str, most: Sequence[float] | None, seen: set[Assignment]
) -> Iterator[Decision]:
    """Alternate between shares and choices from one start to a fixed point, or to choices that were seen before."""
    for _ in range(MOST_TURNS):
        if assignment in seen:
            return
        seen.add(assignment)
        times = every.times(assignment)
        found = balance(times, most) if rule == "exact" else _linear(every, times)
        if found is not None and most is not None and any(map(float.__gt__, found, most)):
            found = balance(times, most)
        if found is None:
            return
        yield _decided(every, assignment, found)
        assignment = every.least(found, _weights(times, found))


def _decided(every: Quadratics, assignment: Assignment, shares: tuple[float, ...]) -> Decision:
    return Decision(every.split.total(times_at(every.times(assignment), shares)), assignment, shares)


def _linear(every: Quadratics, times: Array) -> tuple[float, ...]:
    """Apply AccPar's rule until the transfers match the shares that it gives."""
    flop = every.split.flop
    computing = [flop * rates.work for rates in every.split.rates]
    shares: tuple[float, ...] = (1 / len(times),) * len(times)
    for _ in range(MOST_TURNS):
        both = times_at(times, shares)
        moved = [total - own * share for total, own, share in zip(both, computing, shares, strict=True)]
        found = linear(computing, moved)
        if found == shares:
            break
        shares = found
    return shares


def _weights(times: Array, shares: Sequence[float]) -> list[float]:
    """Return the weight of each group's time: the faster it grows with its share, the smaller the weight."""
    growth = [row[1] + 2 * row[2] * share for row, share in zip(times.tolist(), shares, strict=True)]
    least = 1e-6 * max(map(abs, growth)) or 1.0
    return [1 / max(slope, least) for slope in growth]


MOST_WEIGHTINGS = 24
"""Largest number of rounds in which the device groups are weighted anew."""


def settled(split: UnevenSplit, decision: Decision) -> list[Taken]:
    """Return the choice of every layer by a decision, with the common shares."""
    picks = zip(split.options, decision.assignment, strict=True)
    return [(options[pick], decision.shares) for options, pick in picks]


def settled_costs(split: UnevenSplit, taken: Sequence[Taken]) -> tuple[Array, Array]:
    """Return the cost of each layer, with the tensors that it reads, for each group to receive and to compute.

    Returns:
        ``[groups, layers]`` both.
    """
    nodes, edges = _tables(split, [(own,) for own in taken])
    distinct = dict(zip(zip(map(id, nodes), taken, strict=True), split.graph.layers, strict=True))
    works = {key: split.work(layer, Offered.of([key[1]])) for key, layer in distinct.items()}
    computed = np.concatenate([works[id(own), one] for own, one in zip(nodes, taken, strict=True)], 1)
    received = np.concatenate(nodes, axis=1) - computed
    for tensor, edge in zip(split.graph.tensors, edges, strict=True):
        received[:, tensor.consumer] += edge[:, 0, 0]
    return np.maximum(received, 0.0), computed


def _tables(split: UnevenSplit, offers: Sequence[tuple[Taken, ...]]) -> tuple[list[Array], list[Array]]:
    """Return the costs of the offers of all layers, and of all tensors."""
    known = {own: Offered.of(own) for own in dict.fromkeys(offers)}
    return split.tables([known[own] for own in offers])


def by_layer(every: Quadratics, decision: Decision) -> list[Taken]:
    """Return the best shares found for each layer over several weights of the groups, or the common ones if none are cheaper.

    Args:
        every: all options of an uneven split whose cost is that of its slowest device group.
        decision: the decision with common shares.
    """
    split, common = every.split, settled(every.split, decision)
    offered = [tuple(_offers(every, index, own)) for index, own in enumerate(common)]
    costs = Quadratics.fixed(
        split, [tuple(choice for choice, _ in own) for own in offered], *_tables(split, offered)
    )
    weights, nothing = np.ones(len(split.rates)), (0.0,) * len(split.rates)
    tried: Assignment = (0,) * len(offered)
    found: tuple[float, Assignment] | None = None
    for _ in range(MOST_WEIGHTINGS):
        each = costs.times(tried)[:, 0]
        cost = split.total(each.tolist())
        if found is None or cost < found[0] * (1 - 1e-12):
            found = (cost, tried)
        weights = weights * (each / each.mean()) ** 2 if each.all() else weights
        tried = costs.least(nothing, (weights / weights.sum()).tolist())
    assert found is not None  # noqa: S101 (there is a turn)
    return [offers[pick] for offers, pick in zip(offered, found[1], strict=True)]


def _offers(every: Quadratics, index: int, start: Taken) -> Iterator[Taken]:
    """Yield a layer's present choice and shares, then every option with common or balanced shares, or on one group alone."""
    alone = [*map(tuple, np.eye(len(every.split.rates)).tolist())]
    made, common = {start: None}, start[1]
    for pick, choice in enumerate(every.split.options[index]):
        own = balance(every.nodes[index][:, :, pick])
        for shares in (common, own, *alone):
            if shares is not None and (dim_of(choice) is not None or shares == common):
                made[choice, shares] = None
    yield from made
