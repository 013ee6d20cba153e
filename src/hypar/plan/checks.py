"""What a tree alone cannot say: that the levels, layers, stages, bounds and score of a plan agree."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic import ValidationError

from hypar.network.dims import CUTTABLE
from hypar.plan.stages import stage_name
from hypar.sharding.space import parse_space
from hypar.sharding.tree import MOST_DEVICES, WHOLE_ARRAY, fault

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pydantic_core import InitErrorDetails

    from hypar.plan.content import PlanContent
    from hypar.plan.stages import StagesRecord
    from hypar.sharding.tree import Split


def require_whole(plan: PlanContent) -> None:
    """Check that levels, layers, choices, shares, stages, bounds and score agree.

    Raises:
        ValueError: they do not.
        ValidationError: a dim is unknown.
        InputError: the space is none.
    """
    _require_dims(plan)
    for found in _faults(plan):
        raise ValueError(found)
    parse_space(plan.space, plan.model.dims or ())


def _require_dims(plan: PlanContent) -> None:
    """Check that every dim that is divided is one of all networks, or one that this network names.

    Raises:
        ValidationError: one is not.
    """
    known = (*CUTTABLE, *(plan.model.dims or ()))
    expected = {"expected": ", ".join(map(repr, known))}
    lines: list[InitErrorDetails] = [
        {"type": "literal_error", "loc": ("splits", number, "choices", layer, dim), "input": dim, "ctx": expected}
        for number, split in enumerate(plan.splits)
        for layer, degrees in split.choices.items()
        for dim in degrees
        if dim not in known
    ]  # fmt: skip
    if lines:
        raise ValidationError.from_exception_data("plan", lines)


def _faults(plan: PlanContent) -> Iterator[str]:
    """Yield what does not agree."""
    levels = [(split.level, split.ways) for split in plan.splits]
    if not levels and plan.stages is None:
        yield "splits: found []; allowed: at least 1 where there are no stages"
    if not plan.heterogeneous and levels != [*enumerate(plan.array)]:
        yield f"splits do not match the array {plan.array}; allowed: one a level, outermost first"
    if plan.stages is not None:
        yield from _stage_faults(plan, plan.stages)
    for split in plan.splits:
        yield from split.faults(_layers_at(plan, split))
    if plan.heterogeneous:
        yield from _group_faults(plan)
    elif plan.arrays is not None or plan.path is not None or plan.groups[0].name != WHOLE_ARRAY:
        yield "splits: found groups without an uneven split; allowed: group 'all', no arrays and no path"
    yield from _bound_faults(plan)
    if plan.baselines is not None and (plan.staged or plan.score is None):
        yield f"baselines: found {'in stages' if plan.score else 'without a score'}; allowed: none"
    if plan.chunks is not None:
        yield from plan.chunks.faults(plan.layers, scored=plan.score is not None)


def _stage_faults(plan: PlanContent, stages: StagesRecord) -> Iterator[str]:
    """Yield where stages have not every layer once, in order, or do not suit the array and the score."""
    count, batch = len(stages.stages), plan.model.batch
    if not stages.groups and plan.splits and stages.layers != tuple(plan.splits[0].choices):
        yield "stages: found other layers than those of level 0; allowed: each once, in order"
    if batch % stages.microbatches:
        allowed = f"a divisor of the batch {batch:,}"
        yield f"stages.microbatches: found {stages.microbatches:,}; allowed: {allowed}"
    if not plan.heterogeneous and (stages.outside or 0) > len(plan.array):
        yield fault("stages.outside", stages.outside, f"at most {len(plan.array)}, as there are levels")
    devices = max(count * math.prod(plan.array), math.prod(stages.array or ()))
    if devices > MOST_DEVICES or plan.score is None:
        kind = "" if plan.heterogeneous else "identical "
        yield fault("stages", count, f"at most {MOST_DEVICES:,} {kind}devices, and a score")
    groups = [] if plan.score is None else [group.group for group in plan.score.groups or ()]
    if plan.staged and groups != [*_lanes_of(plan, stages)]:
        yield f"score.groups: found others than the stages; allowed: {count}, one a stage, in order"
    if not plan.staged and stages.arrays is None and (plan.array != stages.array or groups):
        yield f"stages: found 1 over {plan.array}; allowed: {stages.array}, and no groups"


def _lanes_of(plan: PlanContent, stages: StagesRecord) -> Iterator[str]:
    """Yield the names of the groups of identical devices of each stage, in order."""
    for number, stage in enumerate(stages.stages):
        own = [group for group in plan.groups if stage.group is None or group.root == stage.group]
        yield from (f"{stage_name(number)} {each.name}" if each.above else stage_name(number) for each in own)


def _layers_at(plan: PlanContent, split: Split) -> Collection[str]:
    """Return the layers that a split has: those of all stages, or of the stages on its group."""
    if plan.stages is None or not plan.stages.groups:
        return plan.layers
    above = (
        (group, own) for group in plan.groups for own in (*group.splits, *(one for one, _ in group.above))
    )
    return plan.stages.layers_of(next((group.root for group, own in above if own is split), ""))


def _group_faults(plan: PlanContent) -> Iterator[str]:
    """Yield where arrays, path and stages name other groups than the tree."""
    arrays, groups = plan.arrays or {}, plan.groups
    if plan.array or plan.score is None:
        what = f"array: found {plan.array}" if plan.array else "score: found none"
        yield f"{what}; allowed: no array and a score on a heterogeneous machine"
    if plan.stages is not None and plan.staged:
        outside = plan.stages.outside or 0
        if plan.path is not None or (plan.shares and not plan.uneven and plan.stages.arrays is None):
            yield "stages: found a path or shares; allowed: none, as no group shares a layer"
        if any(group.idle for group in groups):
            yield "stages: found a group without a share; allowed: a share for each group"
        if any(len(group.above) + len(group.splits) < outside for group in groups):
            yield fault("stages.outside", outside, "fewer nodes than a group has")
    for group in groups:
        if not group.idle and arrays.get(group.name) != [*group.array]:
            yield fault(f"arrays.{group.name}", arrays.get(group.name), f"{[*group.array]}, as its splits")
    # Groups below an idle uneven split have no splits that would name them.
    names = [group.name for group in groups]
    others = [name for name in arrays if name not in names]
    if others and not any(group.idle and group.name not in arrays for group in groups):
        yield fault("arrays", others[0], ", ".join(names))
    if sum(map(math.prod, arrays.values())) > MOST_DEVICES:
        yield f"arrays: found too many devices; allowed: at most {MOST_DEVICES:,}"
    known = {split.group for split in plan.splits} | {*arrays}
    yield from (
        fault("path", name, ", ".join(sorted(known))) for name in plan.path or () if name not in known
    )


def _bound_faults(plan: PlanContent) -> Iterator[str]:
    """Yield where a bound is above its cost, or their number is neither 1 nor that of the levels."""
    bounds = plan.bounds or ()
    costs = [plan.cost.value] if len(bounds) == 1 else [split.cost for split in plan.splits]
    if plan.bounds is not None and len(bounds) != len(costs):
        yield f"bounds: found {len(bounds)}; allowed: 1, or {len(costs)}, one a level"
    for number, (bound, cost) in enumerate(zip(bounds, costs, strict=False)):
        if bound > cost and not math.isclose(bound, cost, rel_tol=1e-9):
            yield f"bounds[{number}]: found {bound:,}; allowed: at most {cost:,}, the cost"
