"""The records in a plan of the decisions for identical devices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from hypar.plan.splits import Split
from hypar.sharding.redistribution import equal_shares
from hypar.units import exact_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.plan.chunks import ChunksRecord
    from hypar.plan.plan import BaselinesRecord, RefinementRecord
    from hypar.plan.score import Score
    from hypar.planning.searches.base import Answer
    from hypar.sharding.levels import Level
    from hypar.sharding.placement import Choice


class Outcome(NamedTuple):
    """The decisions of a search for identical devices, with their score.

    Attributes:
        answer: choices and costs.
        claim: the claim of the plan.
        baselines: the strategies that were timed beside it; None if none were.
        refined: the changes by refinement; None if it was not requested.
        chunks: the layers that exchange their gradients together; None if not requested.
        score: the score on the machine; None if no machine is named.
    """

    answer: Answer
    claim: str
    baselines: BaselinesRecord | None = None
    refined: RefinementRecord | None = None
    chunks: ChunksRecord | None = None
    score: Score | None = None


def even_split(
    level: Level,
    names: Sequence[str],
    choices: Sequence[Choice],
    costs: Sequence[float],
    *,
    group: str,
    depth: int = 0,
) -> Split:
    """Return the record of one level of identical devices."""
    return Split(
        level=depth + level.index,
        group=group,
        ways=level.ways,
        shares=list(equal_shares(level.ways)),
        choices={name: choice.as_degrees() for name, choice in zip(names, choices, strict=True)},
        costs={name: exact_number(cost) for name, cost in zip(names, costs, strict=True)},
        cost=exact_number(math.fsum(costs)),
    )
