"""Exchanges of few steps: direct, by a tree, and by recursive halving and doubling.

Sources: Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH (IJHPCA 2005),
for recursive halving and doubling, the binomial tree and direct exchange; Bruck, Ho, Kipnis, Upfal and Weathersby,
Efficient Algorithms for All-to-all Communications (TPDS 1997), for numbers of subgroups that are no power of two.
"""

from __future__ import annotations

from hypar.machine.collectives.steps import Exchange, Schedule, Step


def pairs(ways: int, amount: float) -> Step:
    """Return an equal message between any two subgroups."""
    return Step({}, 1, exchanges=(Exchange((tuple(range(ways)),), amount),))


def whole(ways: int) -> float:
    """Return the bytes of a subgroup's terms, as a fraction of the bytes that it receives in an all-reduce."""
    return ways / (2 * (ways - 1))


def tree(ways: int) -> Schedule:
    """Return an all-reduce by a binomial tree: pairs, then pairs of pairs add up their terms; then the sums go back."""
    up = [
        {(source, source - distance): whole(ways) for source in range(distance, ways, 2 * distance)}
        for distance in _powers(ways)
    ]
    down = [{(target, source): amount for (source, target), amount in step.items()} for step in reversed(up)]
    return tuple(Step(messages, 1) for messages in (*up, *down))


def doubling(ways: int) -> Schedule:
    """Return an all-reduce by recursive doubling, in which two subgroups exchange all of their terms."""
    return tuple(
        Step({(one, one ^ distance): whole(ways) for one in range(ways)}, 1) for distance in _powers(ways)
    )


def halving(ways: int, *, near_first: bool) -> Schedule:
    """Return a reduce-scatter by recursive halving, for a power of two.

    Args:
        ways: number of subgroups.
        near_first: whether the largest messages go to the nearest subgroup, and not to the farthest.
    """
    found, amount = [], ways / (ways - 1)
    for distance in _powers(ways) if near_first else reversed(_powers(ways)):
        amount /= 2
        found.append(Step({(one, one ^ distance): amount for one in range(ways)}, 1))
    return tuple(found)


def shifts(ways: int) -> Schedule:
    """Return a reduce-scatter of any number of subgroups: Bruck's all-gather backwards in time."""
    return tuple(
        Step(
            {
                (one, (one + distance) % ways): min(distance, ways - distance) / (ways - 1)
                for one in range(ways)
            },
            1,
        )
        for distance in reversed(_powers(ways))
    )


def _powers(ways: int) -> list[int]:
    """Return the powers of two below a number."""
    return [1 << height for height in range((ways - 1).bit_length())]
