"""The schedules by which each collective may run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.machine.collectives.exchanges import doubling, halving, pairs, shifts, tree, whole
from hypar.machine.collectives.grids import hamiltonian
from hypar.machine.collectives.rings import Lines, ring, round_of, two_rings
from hypar.machine.collectives.steps import Schedule, Step, both, reversed_in_time, scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from hypar.machine.collectives.grids import Grid, Order

ALGORITHMS = (
    "direct",
    "ring",
    "two_rings",
    "hamiltonian",
    "dimensions",
    "tree",
    "halving",
)
"""Names of the algorithms, as in a hardware file; a network that names none has them all."""

Named = tuple[str, Schedule]

PAIR = 2
"""Two subgroups, which exchange their terms, whatever the name of the algorithm."""


def exchanges(ways: int) -> dict[str, Schedule]:
    """Return the schedules of the collectives that have one way only: all at once, and to the next subgroup."""
    return {
        "all_to_all": (pairs(ways, 1 / (ways - 1)),),
        "neighbours": (Step(round_of(tuple(range(ways)), 1.0), 1),),
    }


def reductions(
    grid: Grid, exchange: Step, hops: Callable[[int, int], int], allowed: Collection[str]
) -> dict[str, list[Named]]:
    """Return the schedules of reductions and gatherings by allowed algorithms; direct ones if none of these applies.

    Args:
        grid: the subgroups.
        exchange: an equal message between any two of them.
        hops: number of links between two subgroups.
        allowed: some of ``ALGORITHMS``.
    """
    ways = len(grid.cells)
    at_once = "direct" in allowed or ways == PAIR
    scatters = [*_scatters(grid, hops, allowed)]
    direct: Named = ("direct", (exchange,))
    twice: Named = ("direct", (direct[1][0]._replace(rounds=2),))
    whole_terms: Named = ("direct whole", scaled(direct[1], whole(ways) * (ways - 1)))
    once = [*([direct] if at_once else []), *_rings(grid, allowed, ways - 1)]
    found = {
        "all_reduce": [
            *([whole_terms, twice] if at_once else []),
            *_rings(grid, allowed, 2 * (ways - 1)),
            *_whole_terms(ways, allowed),
            *((name, both(schedule)) for name, schedule in scatters),
        ],
        "reduce_scatter": [*once, *scatters],
        "all_gather": [*once, *((name, reversed_in_time(schedule)) for name, schedule in scatters)],
    }
    found["all_reduce"] = found["all_reduce"] or [whole_terms, twice]
    return {kind: own or [direct] for kind, own in found.items()}


def in_network(ways: int) -> Named:
    """Return an all-reduce whose sums are made by the nodes of the network, and sent back to all subgroups."""
    return "in_tree", (pairs(ways, whole(ways))._replace(summed=True),)


def _whole_terms(ways: int, allowed: Collection[str]) -> Iterator[Named]:
    """Yield the schedules of an all-reduce whose messages are whole terms."""
    if ways > PAIR and "tree" in allowed:
        yield "tree", tree(ways)
    if ways > PAIR and "halving" in allowed and not ways & (ways - 1):
        yield "doubling", doubling(ways)


def _rings(grid: Grid, allowed: Collection[str], rounds: int) -> Iterator[Named]:
    """Yield the rings over all subgroups: in their order, and over neighbouring cells of a grid."""
    ways = len(grid.cells)
    orders: list[tuple[str, Order]] = [("", tuple(range(ways)))]
    around = hamiltonian(grid) if "hamiltonian" in allowed else None
    if around is not None:
        orders.append(("hamiltonian", around))
    for name, order in orders:
        if name or "ring" in allowed:
            yield name or "ring", ring(order, rounds)
        if ways > PAIR and "two_rings" in allowed:
            yield f"{name} two_rings".strip(), two_rings(order, rounds)


def _scatters(grid: Grid, hops: Callable[[int, int], int], allowed: Collection[str]) -> Iterator[Named]:
    """Yield the schedules of a reduce-scatter that an all-gather may follow backwards."""
    ways, count = len(grid.cells), len(grid.sizes)
    if ways == PAIR:
        return
    if "halving" in allowed:
        if ways & (ways - 1):
            yield "halving", shifts(ways)
        else:
            yield "halving", halving(ways, near_first=True)
            yield "halving", halving(ways, near_first=False)
    if "dimensions" not in allowed:
        return
    for manner in ("ring", "two_rings", "direct"):
        lines = Lines(grid, manner, hops)
        if count == 1:
            if manner != "direct":
                yield f"dimensions {manner}", lines.in_turn((0,))
            continue
        yield f"dimensions {manner}", lines.in_turn(range(count))
        yield f"dimensions {manner}", lines.in_turn(tuple(reversed(range(count))))
        yield f"dimensions at once {manner}", lines.at_once()
