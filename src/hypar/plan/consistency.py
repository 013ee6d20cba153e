"""The checks of a plan as a whole: its levels, groups, stages, choices, bounds and score agree."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic import ValidationError

from hypar.errors import shown
from hypar.network.dims import CUTTABLE
from hypar.plan.splits import stage_name
from hypar.sharding.space import parse_space

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pydantic_core import InitErrorDetails

    from hypar.plan.content import PlanContent
    from hypar.plan.splits import Group, Split, StagesRecord

MOST_DEVICES = 2**20
"""Devices of an array at most: 20 two-way levels."""


def require_whole(plan: PlanContent) -> None:
    """Check that levels, layers, choices and shares agree.

    Raises:
        ValueError: they do not.
        ValidationError: a dim is unknown.
        InputError: the space is none.
    """
    _require_dims(plan)
    if not plan.splits and plan.stages is None:
        raise ValueError("splits: found []; allowed: at least 1 where there are no stages")
    if math.prod(plan.array) > MOST_DEVICES:
        ways = "x".join(str(ways) for ways in plan.array)
        raise ValueError(f"array: found {ways:.60}; allowed: at most {MOST_DEVICES:,} devices")
    if not plan.heterogeneous and [(split.level, split.ways) for split in plan.splits] != [
        *enumerate(plan.array)
    ]:
        raise ValueError(f"splits do not match the array {plan.array}; allowed: one a level, outermost first")
    if plan.stages is not None:
        _require_stages(plan, plan.stages)
    for split in plan.splits:
        split.require_whole(_layers_at(plan, split))
    if plan.heterogeneous:
        _require_groups(plan)
    elif plan.arrays is not None or plan.path is not None or {split.group for split in plan.splits} - {"all"}:
        raise ValueError(
            "splits: found groups without an uneven split; allowed: group 'all', no arrays and no path"
        )
    _require_bounds(plan)
    _require_timed(plan)
    parse_space(plan.space, plan.model.dims or ())


def _require_dims(plan: PlanContent) -> None:
    """Check that every dim that is divided is one of all networks, or one that this network names.

    Raises:
        ValidationError: one is not.
    """
    known = (*CUTTABLE, *(plan.model.dims or ()))
    expected = {"expected": ", ".join(map(repr, known))}
    lines: list[InitErrorDetails] = [
        {
            "type": "literal_error",
            "loc": ("splits", number, "choices", layer, dim),
            "input": dim,
            "ctx": expected,
        }
        for number, split in enumerate(plan.splits)
        for layer, degrees in split.choices.items()
        for dim in degrees
        if dim not in known
    ]
    if lines:
        raise ValidationError.from_exception_data("plan", lines)


def _require_timed(plan: PlanContent) -> None:
    """Check that a plan with chunks or baselines can have them.

    Raises:
        ValueError: it cannot.
    """
    if plan.baselines is not None and (plan.staged or plan.score is None):
        place = "in stages" if plan.score else "without a score"
        raise ValueError(f"baselines: found {place}; allowed: none")
    if plan.chunks is not None:
        plan.chunks.require_of(plan.layers, scored=plan.score is not None)


def _require_stages(plan: PlanContent, stages: StagesRecord) -> None:
    """Check that the stages have every layer once, in order.

    Raises:
        ValueError: they do not.
    """
    stages.require_as_asked()
    count = len(stages.stages)
    if not stages.groups and plan.splits and stages.layers != tuple(plan.splits[0].choices):
        raise ValueError("stages: found other layers than those of level 0; allowed: each once, in order")
    if plan.model.batch % stages.microbatches:
        found, allowed = f"{stages.microbatches:,}", f"a divisor of the batch {plan.model.batch:,}"
        raise ValueError(f"stages.microbatches: found {found}; allowed: {allowed}")
    devices = max(count * math.prod(plan.array), math.prod(stages.array or ()))
    if not plan.heterogeneous and (stages.outside or 0) > len(plan.array):
        allowed = f"at most {len(plan.array)}, as there are levels"
        raise ValueError(f"stages.outside: found {stages.outside}; allowed: {allowed}")
    if devices > MOST_DEVICES or plan.score is None:
        kind = "" if plan.heterogeneous else "identical "
        allowed = f"at most {MOST_DEVICES:,} {kind}devices, and a score"
        raise ValueError(f"stages: found {count}; allowed: {allowed}")
    if plan.staged and [group.group for group in plan.score.groups or ()] != [*_lanes_of(plan, stages)]:
        raise ValueError(
            f"score.groups: found others than the stages; allowed: {count}, one a stage, in order"
        )
    alike = not plan.staged and stages.arrays is None
    if alike and (plan.array != stages.array or plan.score.groups is not None):
        raise ValueError(f"stages: found 1 over {plan.array}; allowed: {stages.array}, and no groups")


def _lanes_of(plan: PlanContent, stages: StagesRecord) -> Iterator[str]:
    """Yield the names of the groups of identical devices of each stage, in order."""
    for number, stage in enumerate(stages.stages):
        name = stage_name(number)
        own = [group for group in plan.groups if stage.group is None or group.root == stage.group]
        yield from (f"{name} {group.name}" if group.above else name for group in own)


def _layers_at(plan: PlanContent, split: Split) -> Collection[str]:
    """Return the layers that a split has: those of all stages, or of the stages on its group."""
    stages = plan.stages
    if stages is None or not stages.groups:
        return plan.layers
    root = next((group.root for group in plan.groups if _inside(group, split)), "")
    return stages.layers_of(root)


def _inside(group: Group, split: Split) -> bool:
    """Return whether a group of identical devices is below a split."""
    return split.group == group.name or any(own is split for own, _ in group.above)


def _require_no_path(plan: PlanContent, stages: StagesRecord) -> None:
    """Check that a plan in stages has no slowest groups, and shares only where a layer is on several groups.

    Raises:
        ValueError: it has.
    """
    if plan.path is not None or (plan.shares is not None and not plan.uneven and stages.arrays is None):
        raise ValueError("stages: found a path or shares; allowed: none, as no group shares a layer")
    if any(group.idle for group in plan.groups):
        raise ValueError("stages: found a group without a share; allowed: a share for each group")
    if any(len(group.above) + len(group.splits) < (stages.outside or 0) for group in plan.groups):
        raise ValueError(f"stages.outside: found {stages.outside}; allowed: fewer nodes than a group has")


def _require_groups(plan: PlanContent) -> None:
    """Check that arrays, path and splits name the same tree of groups.

    Raises:
        ValueError: they do not.
    """
    if plan.array or plan.score is None:
        what = f"array: found {plan.array}" if plan.array else "score: found none"
        raise ValueError(f"{what}; allowed: no array and a score on a heterogeneous machine")
    arrays, groups = plan.arrays or {}, plan.groups
    if plan.stages is not None and plan.staged:
        _require_no_path(plan, plan.stages)
    for group in groups:
        planned = [split.ways for split in group.splits]
        if group.idle and planned:
            found = f"found {len(planned)} of a group without a share"
            raise ValueError(f"splits of {shown(group.name)}: {found}; allowed: none")
        if not group.idle and arrays.get(group.name) != planned:
            found = shown(arrays.get(group.name))
            raise ValueError(f"arrays.{group.name}: found {found}; allowed: {planned}, as its splits")
    # Groups below an idle uneven split have no splits that would name them.
    names = [group.name for group in groups]
    others = [name for name in arrays if name not in names]
    if others and not any(group.idle and group.name not in arrays for group in groups):
        raise ValueError(f"arrays: found {shown(others[0])}; allowed: {', '.join(names)}")
    if sum(map(math.prod, arrays.values())) > MOST_DEVICES:
        raise ValueError(f"arrays: found too many devices; allowed: at most {MOST_DEVICES:,}")
    known = {split.group for split in plan.splits} | {*arrays}
    for name in plan.path or ():
        if name not in known:
            raise ValueError(f"path: found {shown(name)}; allowed: {', '.join(sorted(known))}")


def _require_bounds(plan: PlanContent) -> None:
    """Check that no bound is above its cost, apart from rounding.

    Raises:
        ValueError: one is above, or their number is neither 1 nor that of the levels.
    """
    bounds = plan.bounds or ()
    costs = [plan.cost.value] if len(bounds) == 1 else [split.cost for split in plan.splits]
    if plan.bounds is not None and len(bounds) != len(costs):
        allowed = f"1, or {len(costs)}, one a level"
        raise ValueError(f"bounds: found {len(bounds)}; allowed: {allowed}")
    for number, (bound, cost) in enumerate(zip(bounds, costs, strict=False)):
        if bound > cost and not math.isclose(bound, cost, rel_tol=1e-9):
            raise ValueError(f"bounds[{number}]: found {bound:,}; allowed: at most {cost:,}, the cost")
