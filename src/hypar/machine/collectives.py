"""Collectives as schedules of messages between the subgroups of a group, numbered from 0.

Amounts are fractions of the bytes that each subgroup receives in the whole collective. In a reduce-scatter or an all-gather
of ``k`` subgroups these are ``k - 1`` shards; in an all-reduce the ``k - 1`` shards of the reduce-scatter and those of the
all-gather.

Sources: Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH (IJHPCA 2005), for
direct exchange, recursive halving and doubling, and the binomial tree; Bruck, Ho, Kipnis, Upfal and Weathersby, Efficient
Algorithms for All-to-all Communications (TPDS 1997), for numbers of subgroups that are no power of two; Patarasuk and Yuan,
Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations (JPDC 2009), for one ring; Chan, Heimlich, Purkayastha
and van de Geijn, Collective Communication: Theory, Practice, and Experience (CCPE 2007), for one edge of a grid after
another; Jain and Sabharwal, Optimal Bucket Algorithms for Large MPI Collectives on Torus Interconnects (ICS 2010), for two
rings, rings over neighbouring cells, and all edges at once with the data in parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Distances = Callable[[Numbers, Numbers], Numbers]

ALGORITHMS = ("direct", "ring", "two_rings", "hamiltonian", "dimensions", "tree", "halving")
"""Names of the algorithms, as in a hardware file; a network that names none has them all."""

PAIR = 2
"""Two subgroups, which exchange their terms, whatever the name of the algorithm."""


class Messages(NamedTuple):
    """Equal messages from each source of a set to each of its targets but itself.

    Attributes:
        sources: subgroups: [set, source].
        targets: subgroups: [set, target].
    """

    sources: Numbers
    targets: Numbers

    @property
    def key(self) -> object:
        """What equal messages have in common."""
        if self.sources.shape[1] == self.targets.shape[1] == 1:
            return np.sort(self.sources[:, 0] << 32 | self.targets[:, 0]).tobytes()
        return tuple((own.shape, own.tobytes()) for own in self)

    def back(self) -> Messages:
        """Return the messages the other way."""
        return Messages(self.targets, self.sources)


class Step(NamedTuple):
    """Messages that are sent at the same time, perhaps in several rounds of equal messages.

    Attributes:
        parts: messages with the amount of each in all rounds together.
        rounds: number of rounds, each of which waits for the one before.
        summed: whether the nodes of the network add up all messages and send one sum back.
    """

    parts: tuple[tuple[float, Messages], ...]
    rounds: int = 1
    summed: bool = False


Schedule = tuple[Step, ...]
"""Steps one after another."""

Named = tuple[str, Schedule]


def once(amount: float, sent: Messages, rounds: int = 1) -> Step:
    """Return the step of one part."""
    return Step(((amount, sent),), rounds)


def reversed_in_time(schedule: Schedule) -> Schedule:
    """Return the schedule of an all-gather, which sends the messages of a reduce-scatter back in reverse order."""
    return tuple(
        step._replace(parts=tuple((amount, sent.back()) for amount, sent in step.parts))
        for step in reversed(schedule)
    )


def both(scatter: Schedule) -> Schedule:
    """Return the schedule of an all-reduce: a reduce-scatter of half of the bytes received, then an all-gather."""
    parts = (tuple((amount / 2, sent) for amount, sent in step.parts) for step in scatter)
    half = tuple(step._replace(parts=own) for step, own in zip(scatter, parts, strict=True))
    return (*half, *reversed_in_time(half))


# Which schedules a collective has


def schedules(grid: Numbers, hops: Distances, allowed: Collection[str]) -> dict[str, list[Named]]:
    """Return the schedules of each collective between subgroups on a grid by allowed algorithms; direct ones if none of these applies.

    Algorithms are some of ``ALGORITHMS``, and ``in_tree`` if the nodes of the network add up an all-reduce and send the sum back to all.
    """
    ways, everyone = grid.size, among_all(grid.size)
    at_once, summed = "direct" in allowed or ways == PAIR, "in_tree" in allowed
    direct: Named = "direct", (once(1 / (ways - 1), everyone),)
    all_whole = once(whole_terms(ways), everyone)
    twice = once(1 / (ways - 1), everyone, 2)
    whole: list[Named] = [("direct whole", (all_whole,)), ("direct", (twice,))]
    scatters = [*_scatters(grid, hops, allowed)]
    reduced = [
        *whole * at_once,
        *_rings(grid, allowed, 2 * (ways - 1)),
        *_of_whole_terms(ways, allowed),
        *((name, both(schedule)) for name, schedule in scatters),
    ]
    alike = [direct] * at_once + [*_rings(grid, allowed, ways - 1)]
    return {
        "all_reduce": [*(reduced or whole), *[("in_tree", (all_whole._replace(summed=True),))] * summed],
        "reduce_scatter": [*alike, *scatters] or [direct],
        "all_gather": [*alike, *((name, reversed_in_time(own)) for name, own in scatters)] or [direct],
        "all_to_all": [direct],
        "neighbours": [("direct", (once(1.0, around(np.arange(ways)[None])),))],
    }


def _rings(grid: Numbers, allowed: Collection[str], rounds: int) -> Iterator[Named]:
    """Yield the rings over all subgroups: in their order, and over neighbouring cells of a grid."""
    orders = [("", np.arange(grid.size))]
    if "hamiltonian" in allowed and grid.ndim == 2:
        orders.append(("hamiltonian", hamiltonian(grid)))
    for name, order in orders:
        ring = around(order[None])
        if name or "ring" in allowed:
            yield name or "ring", (once(1.0, ring, rounds),)
        if grid.size > PAIR and "two_rings" in allowed:
            yield f"{name} two_rings".strip(), (Step(_both_ways(ring), rounds),)


def _of_whole_terms(ways: int, allowed: Collection[str]) -> Iterator[Named]:
    """Yield the schedules of an all-reduce whose messages are whole terms: by a binomial tree, by recursive doubling."""
    powers, whole = _powers(ways), whole_terms(ways)
    if ways > PAIR and "tree" in allowed:
        # Pairs, then pairs of pairs add up their terms; then the sums go back.
        each = [(np.arange(distance, ways, 2 * distance), distance) for distance in powers]
        up = tuple(once(whole, _listed(own, own - distance)) for own, distance in each)
        yield "tree", (*up, *reversed_in_time(up))
    if ways > PAIR and "halving" in allowed and not ways & (ways - 1):
        yield "doubling", tuple(once(whole, _across(ways, distance)) for distance in powers)


def _scatters(grid: Numbers, hops: Distances, allowed: Collection[str]) -> Iterator[Named]:
    """Yield the schedules of a reduce-scatter that an all-gather may follow backwards."""
    if grid.size == PAIR:
        return
    if "halving" in allowed:
        yield from (("halving", schedule) for schedule in _halvings(grid.size))
    if "dimensions" not in allowed:
        return
    axes = range(grid.ndim)
    for manner in ("ring", "two_rings", "direct"):
        lines = (np.moveaxis(grid, axis, -1).reshape(-1, grid.shape[axis]) for axis in axes)
        rounds = [_round(own, manner, hops) for own in lines]
        if grid.ndim > 1 or manner != "direct":
            yield f"dimensions {manner}", _along(grid, rounds, [axes])
        if grid.ndim == 1:
            continue
        yield f"dimensions {manner}", _along(grid, rounds, [axes[::-1]])
        # Each part begins with another edge.
        orders = [[(part + turn) % grid.ndim for turn in axes] for part in axes]
        yield f"dimensions at once {manner}", _along(grid, rounds, orders)


def _halvings(ways: int) -> Iterator[Schedule]:
    """Yield reduce-scatters in the fewest steps: recursive halving, nearest or farthest first, or Bruck's for other numbers."""
    powers, part = _powers(ways), 1 / (ways - 1)
    if ways & (ways - 1):
        # His all-gather backwards in time.
        one = np.arange(ways)
        each = [once(part * min(far, ways - far), _listed(one, (one + far) % ways)) for far in powers]
        yield tuple(reversed(each))
        return
    for distances in (powers, powers[::-1]):
        each = [once(part * ways / 2**turn, _across(ways, far)) for turn, far in enumerate(distances, 1)]
        yield tuple(each)


def _round(lines: Numbers, manner: str, hops: Distances) -> Step:
    """Return the rounds in which each line of a grid exchanges its shards, with the fraction of the data in one of them."""
    size = lines.shape[1]
    if manner == "direct":
        return once(1 / size, Messages(lines, lines))
    ring = around(ring_order(lines, hops))
    ways = _both_ways(ring) if manner == "two_rings" and size > PAIR else ((1.0, ring),)
    return Step(tuple((part / size, sent) for part, sent in ways), size - 1)


def _along(grid: Numbers, rounds: Sequence[Step], orders: Sequence[Sequence[int]]) -> Schedule:
    """Return a reduce-scatter of equal parts of the data at the same time, each along one edge after another in its order."""
    found, data = list[Step](), [grid.size / (grid.size - 1) / len(orders)] * len(orders)
    for axes in zip(*orders, strict=True):
        found += _together([(amount, rounds[axis]) for amount, axis in zip(data, axes, strict=True)])
        data = [amount / grid.shape[axis] for amount, axis in zip(data, axes, strict=True)]
    return tuple(found)


def _together(exchanged: Sequence[tuple[float, Step]]) -> Iterator[Step]:
    """Yield the steps of exchanges of some data at the same time, of which one may have more rounds than another."""
    done = 0
    for end in sorted({own.rounds for _, own in exchanged}):
        active = [(data * (end - done), own) for data, own in exchanged if own.rounds >= end]
        parts = tuple((amount * part, sent) for amount, own in active for part, sent in own.parts)
        yield Step(parts, end - done)
        done = end


# Messages between subgroups


def among_all(ways: int) -> Messages:
    """Return a message between any two subgroups."""
    everyone = np.arange(ways)
    return _listed(everyone, everyone[::-1]) if ways == PAIR else Messages(everyone[None], everyone[None])


def around(orders: Numbers) -> Messages:
    """Return the messages of one round of rings: [ring, subgroup]."""
    return _listed(orders.ravel(), np.roll(orders, -1, axis=1).ravel())


def whole_terms(ways: int) -> float:
    """Return the bytes of a subgroup's terms, as a fraction of the bytes that it receives in an all-reduce."""
    return ways / (2 * (ways - 1))


def _listed(sources: Numbers, targets: Numbers) -> Messages:
    return Messages(sources[:, None], targets[:, None])


def _across(ways: int, distance: int) -> Messages:
    return _listed(np.arange(ways), np.arange(ways) ^ distance)


def _both_ways(ring: Messages) -> tuple[tuple[float, Messages], ...]:
    return (0.5, ring), (0.5, ring.back())


def _powers(ways: int) -> list[int]:
    return [1 << height for height in range((ways - 1).bit_length())]


# Grids of subgroups


def grid_of(coordinates: Numbers) -> Numbers:
    """Return subgroups at some coordinates, [subgroup, edge], as a grid of those edges that have several; else a line."""
    ways = len(coordinates)
    places = [np.unique(own, return_inverse=True) for own in coordinates.T]
    sizes = [len(values) for values, _ in places]
    if math.prod(sizes) != ways:
        return np.arange(ways)
    grid = np.full(sizes, -1)
    grid[tuple(place for _, place in places)] = np.arange(ways)
    return np.arange(ways) if (grid < 0).any() else grid.squeeze()


def ring_order(lines: Numbers, hops: Distances) -> Numbers:
    """Return lines as rings: as they are if the ends are neighbours, else there over every other one and back.

    Examples:
        >>> ring_order(np.arange(5)[None], lambda one, other: abs(one - other)).tolist()
        [[0, 2, 4, 3, 1]]
    """
    if lines.shape[1] <= PAIR + 1:
        return lines
    near = hops(lines[:, -1], lines[:, 0]) <= hops(lines[:, 0], lines[:, 1])
    return np.where(near[:, None], lines, np.hstack([lines[:, ::2], lines[:, 1::2][:, ::-1]]))


def hamiltonian(grid: Numbers) -> Numbers:
    """Return a ring over neighbouring cells of a grid of two edges.

    An edge of even length is walked there and back, line by line, and the first cell of each line is left for the way home.
    If both are odd, the last cell is joined to the first.

    Examples:
        >>> hamiltonian(np.arange(6).reshape(2, 3)).tolist()
        [0, 1, 2, 5, 4, 3]
    """
    if grid.size % PAIR:
        return np.hstack([line[::-1] if number % PAIR else line for number, line in enumerate(grid)])
    lines = grid if grid.shape[0] % PAIR == 0 else grid.T
    out = [line[:0:-1] if number % PAIR else line[1:] for number, line in enumerate(lines)]
    return np.hstack([lines[0, :1], *out, lines[:0:-1, 0]])
