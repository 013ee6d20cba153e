"""Refine choices by local search with the engine, as overlap makes the sum of a cost inexact.

For each layer in turn, every exchange of its choice at one level for another option is timed, and the fastest is
kept, until a whole round over the network changes nothing. The result is never worse than the start; it claims no
optimum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypar.activity import tell
from hypar.plan.records import RefinementRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.sharding.placement import Options

LEAST_GAIN = 1e-12
"""Relative gain below which an exchange does not count as faster."""


class Slot(NamedTuple):
    """One layer at one node.

    Attributes:
        layer: its name.
        chosen: its choice at each level of the node.
        options: its options at each level.
    """

    layer: str
    chosen: Options
    options: tuple[Options, ...]


class Refinement(NamedTuple):
    """The result of a refinement.

    Attributes:
        choices: for each slot a choice at each level.
        record: its record in a plan.
    """

    choices: tuple[Options, ...]
    record: RefinementRecord


def refine(
    slots: Sequence[Slot],
    seconds: Callable[[Sequence[Options]], float],
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Refinement:
    """Exchange choices one by one as long as the engine's time decreases.

    Args:
        slots: the layers that are cut, at each node.
        seconds: the engine's time for a step with some choices, one for each slot.
        progress: called with the number of slots done in a round, and their total.
    """
    chosen = [slot.chosen for slot in slots]
    before = best = seconds(chosen)
    unchanged = 0
    while unchanged < len(chosen):
        for at, slot in enumerate(slots):
            tell(f"refining {slot.layer}")
            held, found = chosen[at], None
            for changed in _exchanges(held, slot.options):
                chosen[at] = changed
                own = seconds(chosen)
                if own < best * (1 - LEAST_GAIN):
                    best, found = own, changed
            chosen[at] = held if found is None else found
            unchanged = unchanged + 1 if found is None else 0
            progress(at + 1, len(chosen))
            if unchanged >= len(chosen):
                break
    pairs = zip(slots, chosen, strict=True)
    changes = sum(a != b for slot, new in pairs for a, b in zip(slot.chosen, new, strict=True))
    return Refinement(tuple(chosen), RefinementRecord(before_s=before, after_s=best, changed=changes))


def _exchanges(held: Options, options: Sequence[Options]) -> list[Options]:
    """Return a layer's choices with one level's choice exchanged, for every level and option."""
    return [
        (*held[:level], choice, *held[level + 1 :])
        for level, allowed in enumerate(options)
        for choice in allowed
        if choice != held[level]
    ]
