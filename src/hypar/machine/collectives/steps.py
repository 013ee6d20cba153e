"""Steps of a collective: messages between the subgroups of a group, and how often they are repeated.

Subgroups are numbered from 0. Amounts are fractions of the bytes that each subgroup receives in the whole
collective. In a reduce-scatter or an all-gather of ``k`` subgroups these are ``k - 1`` shards; in an all-reduce
the ``k - 1`` shards of the reduce-scatter and those of the all-gather.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Messages = dict[tuple[int, int], float]
"""Amount from one subgroup to another."""


class Exchange(NamedTuple):
    """An equal message between any two subgroups of each of some sets.

    Attributes:
        sets: the subgroups of each set.
        amount: amount of each message.
    """

    sets: tuple[tuple[int, ...], ...]
    amount: float


class Step(NamedTuple):
    """Messages that are sent at the same time, perhaps in several rounds of equal messages.

    Attributes:
        messages: the amounts of all rounds together; empty if ``exchanges`` are the messages.
        rounds: number of rounds, each of which waits for the one before.
        factor: number by which all amounts are multiplied.
        summed: whether the nodes of the network add up all messages and send one sum back; then the amount of each
            link is the largest of the messages.
        exchanges: the messages where there is one between any two subgroups of a set, so that they need no list.
    """

    messages: Messages
    rounds: int
    factor: float = 1.0
    summed: bool = False
    exchanges: tuple[Exchange, ...] = ()


Schedule = tuple[Step, ...]
"""Steps one after another."""


def merged(parts: Sequence[tuple[float, Messages]]) -> Messages:
    """Return the sum of messages that are sent at the same time, each multiplied by its factor."""
    found: Messages = {}
    for factor, messages in parts:
        for ends, amount in messages.items():
            found[ends] = found.get(ends, 0.0) + factor * amount
    return found


def listed(exchanges: Sequence[Exchange]) -> Messages:
    """Return the messages of exchanges one by one."""
    return merged(
        [
            (1.0, dict.fromkeys(permutations(members, 2), exchange.amount))
            for exchange in exchanges
            for members in exchange.sets
        ]
    )


def scaled(schedule: Schedule, factor: float) -> Schedule:
    """Return a schedule of ``factor`` times the bytes."""
    return tuple(step._replace(factor=step.factor * factor) for step in schedule)


def reversed_in_time(schedule: Schedule) -> Schedule:
    """Return the schedule of an all-gather, which sends the messages of a reduce-scatter back in reverse order."""
    return tuple(
        step._replace(
            messages={(target, source): amount for (source, target), amount in step.messages.items()}
        )
        for step in reversed(schedule)
    )


def both(reduce_scatter: Schedule) -> Schedule:
    """Return the schedule of an all-reduce: a reduce-scatter of half of the bytes received, then an all-gather."""
    half = scaled(reduce_scatter, 0.5)
    return (*half, *reversed_in_time(half))


def simultaneous(parts: Sequence[tuple[float, Mapping[tuple[int, int], float], int]]) -> list[Step]:
    """Return the steps of several parts of the data that are sent at the same time.

    Args:
        parts: for each part a factor, the messages of one round, and the number of rounds.
    """
    ends = sorted({rounds for _, _, rounds in parts if rounds})
    found, done = list[Step](), 0
    for end in ends:
        active = [
            (factor * (end - done), dict(messages)) for factor, messages, rounds in parts if rounds >= end
        ]
        found.append(Step(merged(active), end - done))
        done = end
    return found
