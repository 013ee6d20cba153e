"""Refine choices by local search with the engine, as overlap makes the sum of a cost inexact.

For each layer in turn, every exchange of its choice at one level for another option is timed, and the fastest is
kept, until a whole round over the network changes nothing. The result is never worse than the start; it claims no
optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.activity import tell
from hypar.plan.plan import RefinementRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.sharding.placement import Options

LEAST_GAIN = 1e-12
"""Relative gain below which an exchange does not count as faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refinement:
    """The result of a refinement.

    Attributes:
        choices: for each layer a choice at each level.
        before_s: the engine's time for a step before it.
        after_s: the engine's time for a step with these choices.
    """

    choices: tuple[Options, ...]
    before_s: float
    after_s: float

    def record(self, start: Sequence[Options]) -> RefinementRecord:
        """Return the record in a plan, given the choices before."""
        pairs = zip(start, self.choices, strict=True)
        changed = sum(a != b for old, new in pairs for a, b in zip(old, new, strict=True))
        return RefinementRecord(before_s=self.before_s, after_s=self.after_s, changed=changed)


def refine(
    names: Sequence[str],
    seconds: Callable[[Sequence[Options]], float],
    start: Sequence[Options],
    options: Sequence[Sequence[Options]],
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Refinement:
    """Exchange choices one by one as long as the engine's time decreases.

    Args:
        names: the layers that are cut.
        seconds: the engine's time for a step with some choices.
        start: for each layer a choice at each level.
        options: for each layer, the options at each level.
        progress: called with the number of layers done in a round, and their total.
    """
    chosen = list(start)
    before = best = seconds(chosen)
    unchanged = 0
    while unchanged < len(chosen):
        for layer, name in enumerate(names):
            tell(f"refining {name}")
            held, found = chosen[layer], None
            for changed in _exchanges(held, options[layer]):
                chosen[layer] = changed
                own = seconds(chosen)
                if own < best * (1 - LEAST_GAIN):
                    best, found = own, changed
            chosen[layer] = held if found is None else found
            unchanged = unchanged + 1 if found is None else 0
            progress(layer + 1, len(chosen))
            if unchanged >= len(chosen):
                break
    return Refinement(choices=tuple(chosen), before_s=before, after_s=best)


def _exchanges(held: Options, options: Sequence[Options]) -> list[Options]:
    """Return a layer's choices with one level's choice exchanged, for every level and option."""
    return [
        (*held[:level], choice, *held[level + 1 :])
        for level, allowed in enumerate(options)
        for choice in allowed
        if choice != held[level]
    ]
