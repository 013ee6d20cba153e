"""What was found for stages, as a plan records it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.splits import Split, StageRecord, StagesRecord
from hypar.traffic import equal_shares
from hypar.units import exact_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.recipe import Recipe
    from hypar.staging.running import Staging


def stages_of(staging: Staging, recipe: Recipe) -> StagesRecord:
    """The stages as a plan has them.

    Args:
        staging: what was found.
        recipe: what was asked for.
    """
    return StagesRecord(
        asked=recipe.stages,  # type: ignore[arg-type]
        array=list(recipe.array) if recipe.stages == "best" else None,
        solver=recipe.solver,
        schedule=recipe.schedule,
        microbatches=staging.microbatches,
        bottleneck_s=staging.bottleneck_s,
        stages=[
            StageRecord(
                layers=[layer.name for layer in block.cuts.lane.graph.layers],
                busy_s=block.seconds(staging.microbatches),
                in_flight=in_flight,
                staleness=stale,
            )
            for block, in_flight, stale in zip(
                staging.blocks, staging.in_flight, staging.staleness, strict=True
            )
        ],
    )


def staged_claim(recipe: Recipe, staging: Staging) -> str:
    """What a plan in stages is optimal over."""
    tried = "of all numbers of stages tried the fastest: " if recipe.stages == "best" else ""
    fitting = " that fit" if recipe.machine is not None and recipe.machine.memory_bytes is not None else ""
    bounds = f"{tried}stages of the least bottleneck of all boundaries{fitting}"
    if not staging.recipe.array:
        return f"{bounds}, not cut"
    pins = f" and {len(recipe.pins)} pin{'s' * (len(recipe.pins) > 1)}" if recipe.pins else ""
    exact = all(block.cuts.answer.exact for block in staging.blocks)
    solver = "" if exact else f" and solver {recipe.solver!r}, not exact,"
    return f"{bounds}, each cut by {recipe.search} search{solver} over ({recipe.space}){pins} for least {recipe.cost}"


def splits_of(staging: Staging) -> Iterator[Split]:
    """One split a level inside the stages, for the layers of all of them."""
    for level, ways in enumerate(staging.recipe.array):
        choices, costs = {}, {}
        for block in staging.blocks:
            rows = zip(
                block.cuts.lane.graph.layers,
                block.cuts.lane.choices,
                block.cuts.answer.costs[level],
                strict=True,
            )
            for layer, chosen, cost in rows:
                choices[layer.name] = chosen[level].as_degrees()
                costs[layer.name] = exact_number(cost)
        yield Split(
            level=level,
            group="all",
            ways=ways,
            shares=list(equal_shares(ways)),
            choices=choices,
            costs=costs,
            cost=exact_number(math.fsum(costs.values())),
        )
