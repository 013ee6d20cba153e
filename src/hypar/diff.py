"""Where two plans differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypar.errors import PlanError
from hypar.splits import WHOLE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.plan import Plan
    from hypar.splits import Split


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Where two plans differ.

    Attributes:
        layer: the layer, or empty for what a level or the plan as a whole says.
        level: the level; None for the whole plan.
        before: what the first plan says: a dim, an amount, or that there is no such layer.
        after: what the second says.
        what: ``choice``, ``cost``, ``layer``, ``split``, or the name of what the plan records, as ``batch``.
        group: the group of a mixed machine whose level it is.
    """

    layer: str
    level: int | None
    before: str | int | float
    after: str | int | float
    what: str
    group: str = "all"

    def __str__(self) -> str:
        """``fc1 H2: batch -> in_channels``."""
        group = "" if self.group == WHOLE_ARRAY else self.group
        level = "" if self.level is None else f"H{self.level + 1}"
        place = " ".join(filter(None, [self.layer, group, level]))
        noun = "" if self.what == "choice" else f" {self.what}"
        return f"{place or 'plan'}{noun}: {self.words[0]} -> {self.words[1]}"

    @property
    def words(self) -> tuple[str, str]:
        """Before and after as people read them."""
        before, after = (side if isinstance(side, str) else f"{side:,}" for side in (self.before, self.after))
        return before, after


def diff_plans(before: Plan, after: Plan) -> tuple[Change, ...]:
    """Everything in which two plans differ: what was planned, then choices, then costs.

    Raises:
        PlanError: the plans are of different arrays or different costs.
    """
    sought = [None if plan.stages is None else plan.stages.array for plan in (before, after)]
    alike = sought[0] is not None and sought[0] == sought[1]
    for name, a, b in (
        *(() if alike else [("array", before.array, after.array)]),
        ("arrays", before.arrays, after.arrays),
        ("cost", _cost_name(before), _cost_name(after)),
    ):
        if a != b:
            raise PlanError(name, f"the plans differ: {a} and {b}", "plans of one array and one cost")
    return (
        *_record_changes(before, after),
        *_layer_changes(before, after),
        *_stage_changes(before, after),
        *_split_changes(before, after),
        *_choice_changes(before, after),
        *_cost_changes(before, after),
    )


def _record_changes(before: Plan, after: Plan) -> Iterator[Change]:
    """What was planned and how, where that differs."""
    for old, new in zip(_record(before), _record(after), strict=True):
        if old != new:
            yield Change(layer="", level=None, before=old[1], after=new[1], what=old[0])
    yield from _chunk_changes(before, after)
    for split, fresh in _pairs(before, after):
        texts = [_shares(one) for one in (split, fresh)]
        if texts[0] != texts[1]:
            place = {"level": split.level, "group": split.group}
            yield Change(layer="", before=texts[0], after=texts[1], what="shares", **place)  # type: ignore[arg-type]


def _chunk_changes(before: Plan, after: Plan) -> Iterator[Change]:
    """The first chunk that differs, where a few words name the chunks of both alike."""
    if before.chunks and after.chunks and before.chunks.words == after.chunks.words:
        for number, pair in enumerate(zip(before.chunks.layers, after.chunks.layers, strict=False), 1):
            if pair[0] != pair[1]:
                old, new = (", ".join(chunk) for chunk in pair)
                yield Change(layer="", level=None, before=old, after=new, what=f"chunk {number}")
                return


def _pairs(before: Plan, after: Plan) -> Iterator[tuple[Split, Split]]:
    """The splits that both plans have."""
    found = {(split.group, split.level): split for split in after.splits}
    for split in before.splits:
        if (split.group, split.level) in found:
            yield split, found[split.group, split.level]


def _shares(split: Split) -> str:
    """The shares of a split and of the layers that have their own, to nine digits."""
    own = (split.layer_shares or {}).items()
    texts = [", ".join(f"{share:.9g}" for share in split.shares)]
    texts += [f"{layer} " + ", ".join(f"{share:.9g}" for share in shares) for layer, shares in own]
    return "; ".join(texts)


def _split_changes(before: Plan, after: Plan) -> Iterator[Change]:
    """Splits that only one of the plans has, as a group of it is idle."""
    places = [{(split.group, split.level): split.ways for split in plan.splits} for plan in (before, after)]
    for group, level in dict.fromkeys((*places[0], *places[1])):
        words = ["planned" if (group, level) in place else "idle" for place in places]
        if words[0] != words[1]:
            yield Change(layer="", level=level, before=words[0], after=words[1], what="split", group=group)


def _record(plan: Plan) -> list[tuple[str, str]]:
    """Name and text of everything that a plan records besides choices, shares and costs."""
    whole = {
        "model": plan.model.name,
        "digest": plan.model.digest[:19],
        "batch": str(plan.model.batch),
        "strategy": plan.strategy,
        "graph": plan.graph or "contracted",
        "space": plan.space,
        "search": plan.search,
        "solver": plan.solver,
        "pins": ", ".join(plan.pins) or "none",
        "profile": "none" if plan.profile is None else plan.profile.digest[:19],
        "taken": "search" if plan.baselines is None else plan.baselines.taken,
        "timed": "none" if plan.baselines is None else ", ".join(plan.baselines.names),
        "refined": "no" if plan.refined is None else "yes",
        "chunks": "none" if plan.chunks is None else plan.chunks.words,
        "shares": plan.shares or "equal",
        "integral": "yes" if plan.integral else "no",
        "path": ", ".join(plan.path or ()) or "none",
        **_stages(plan),
        **_machine(plan),
        **{name: str(value) for name, value in sorted(plan.cost.parameters.items())},
        "claim": plan.claim,
    }
    return list(whole.items())


def _machine(plan: Plan) -> dict[str, str]:
    """What a plan's score is for."""
    if plan.score is None:
        return {"hardware": "none", "optimizer": "none"}
    named = f"{plan.score.hardware} {plan.score.hardware_digest[:19]}"
    return {"hardware": named, "optimizer": plan.score.optimizer}


def _stages(plan: Plan) -> dict[str, str]:
    """In how many stages, over how many levels, and how they work; nothing of a network that is not divided."""
    own = plan.stages
    if own is None:
        return {"stages": "none", "stage array": "none", "schedule": "none", "microbatches": "none"}
    best = f", asked for {own.asked}" if own.asked == "best" else ""
    return {
        "stages": f"{len(own.stages)}{best}",
        "stage array": "x".join(map(str, plan.array)) or "none",
        "schedule": own.schedule,
        "microbatches": str(own.microbatches),
    }


def _stage_changes(before: Plan, after: Plan) -> Iterator[Change]:
    """Layers that are in other stages, and what is recorded of the stages that both have."""
    if before.stages is None or after.stages is None:
        return
    old, new = (
        {layer: number for number, stage in enumerate(record.stages, 1) for layer in stage.layers}
        for record in (before.stages, after.stages)
    )
    for layer, number in old.items():
        if layer in new and number != new[layer]:
            yield Change(layer=layer, level=None, before=number, after=new[layer], what="stage")


def _layer_changes(before: Plan, after: Plan) -> Iterator[Change]:
    """Layers that only one of the plans has."""
    for layer in dict.fromkeys((*before.layers, *after.layers)):
        if layer not in before.layers or layer not in after.layers:
            there = layer in before.layers
            words = ("planned", "not in the model") if there else ("not in the plan", "in the model")
            yield Change(layer=layer, level=None, before=words[0], after=words[1], what="layer")


def _choice_changes(before: Plan, after: Plan) -> Iterator[Change]:
    """Choices that differ."""
    for old, new in _pairs(before, after):
        for layer in old.choices:
            if layer in new.choices and old.choices[layer] != new.choices[layer]:
                texts = [_degrees(split.choices[layer]) for split in (old, new)]
                yield Change(
                    layer=layer,
                    level=old.level,
                    before=texts[0],
                    after=texts[1],
                    what="choice",
                    group=old.group,
                )


def _cost_changes(before: Plan, after: Plan) -> Iterator[Change]:
    """Costs that differ: of a layer, of a level, of the plan."""
    for old, new in _pairs(before, after):
        for layer in old.costs:
            if layer in new.costs and _differ(old.costs[layer], new.costs[layer]):
                yield _cost_change(layer, old, old.costs[layer], new.costs[layer])
        if _differ(old.cost, new.cost):
            yield _cost_change("", old, old.cost, new.cost)
    if _differ(before.cost.value, after.cost.value):
        yield _cost_change("", None, before.cost.value, after.cost.value)
    for name, old_number, new_number in _score_numbers(before, after):
        if _differ(old_number, new_number):
            yield Change(layer="", level=None, before=old_number, after=new_number, what=name)


def _score_numbers(before: Plan, after: Plan) -> Iterator[tuple[str, float | str, float | str]]:
    """What two scores, baselines and refinements say, by name: totals, then items."""
    if before.chunks and after.chunks:
        yield "alone_s", before.chunks.alone_s, after.chunks.alone_s
    scores, timed, refinements = (
        [part and part.model_dump() for part in parts]
        for parts in (
            (before.score, after.score),
            (before.baselines, after.baselines),
            (before.refined, after.refined),
        )
    )
    stages = [_times_of_stages(plan) for plan in (before, after)]
    for old, new in (scores, timed, refinements, stages):
        if old is not None and new is not None:
            stands, fresh = (dict(_numbers(part, "")) for part in (old, new))
            for name in dict.fromkeys((*stands, *fresh)):
                yield name, stands.get(name, "none"), fresh.get(name, "none")


def _times_of_stages(plan: Plan) -> dict[str, Any] | None:
    """The numbers of a plan's stages, each under the stage's name."""
    if plan.stages is None:
        return None
    each = {
        f"stage {number}": stage.model_dump(exclude={"layers"})
        for number, stage in enumerate(plan.stages.stages, 1)
    }
    return {"bottleneck_s": plan.stages.bottleneck_s, **each}


def _numbers(data: Any, where: str) -> Iterator[tuple[str, float | str]]:
    """The numbers of nested mappings, with their places; yes and no in words."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _numbers(value, f"{where} {key}".lstrip())
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _numbers(
                value, f"{where} {value.get('group', index)}" if isinstance(value, dict) else where
            )
    elif isinstance(data, bool):
        yield where, "yes" if data else "no"
    elif isinstance(data, int | float):
        yield where, data


def _differ(before: float | str, after: float | str) -> bool:
    """Whole numbers and words are exact; other numbers may round differently on another computer."""
    if isinstance(before, int | str) or isinstance(after, int | str):
        return before != after
    return not math.isclose(before, after, rel_tol=1e-9)


def _cost_change(layer: str, split: Split | None, before: float, after: float) -> Change:
    level, group = (None, WHOLE_ARRAY) if split is None else (split.level, split.group)
    return Change(layer=layer, level=level, before=before, after=after, what="cost", group=group)


def _cost_name(plan: Plan) -> str:
    """The cost, its unit and its parameters' names."""
    return (
        f"{plan.cost.name} in {plan.cost.unit} ({', '.join(sorted(plan.cost.parameters)) or 'no parameters'})"
    )


def _degrees(degrees: dict[str, int]) -> str:
    """A choice in a few letters; a degree is named where it is not two."""
    named = [dim if degree == 2 else f"{dim} x{degree}" for dim, degree in degrees.items()]
    return ", ".join(named) or "whole"
