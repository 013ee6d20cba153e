"""The interface of reports, and the wording that they share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hypar.plan.stages import stage_of
from hypar.planning.counting import cost_convention, score_convention
from hypar.schedule.pipeline_orders import SCHEDULES
from hypar.sharding.dims import GRIDS, choice_word, vocabulary
from hypar.sharding.space import parse_space
from hypar.sharding.tree import WHOLE_ARRAY, Split
from hypar.units import amount, format_bytes, format_joules, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hypar.plan.plan import Plan
    from hypar.plan.records import BaselinesRecord, ChunksRecord, RefinementRecord
    from hypar.plan.score import GroupScore, Score
    from hypar.plan.stages import StageRecord, StagesRecord


class Report(Protocol):
    """A writer of plans for people."""

    def render(self, plan: Plan) -> str:
        """Return the plan as text."""


class Column(NamedTuple):
    """A column of a plan's table.

    Attributes:
        name: ``H1`` for the outermost level; the levels of a group of a heterogeneous machine share a column.
        splits: the splits that it shows.
    """

    name: str
    splits: tuple[Split, ...]

    @property
    def cost(self) -> float:
        """Return the total cost of the splits."""
        return math.fsum(split.cost for split in self.splits) if len(self.splits) > 1 else self.splits[0].cost


def columns(plan: Plan) -> list[Column]:
    """Return the columns between a layer's name and its cost."""
    if not plan.heterogeneous:
        return [Column(f"H{split.level + 1}", (split,)) for split in plan.splits]
    together: dict[str, list[Split]] = {}
    for split in plan.splits:
        together.setdefault(split.group, []).append(split)
    found = []
    for group, splits in together.items():
        ends = dict.fromkeys([splits[0].level + 1, splits[-1].level + 1])
        levels = "-".join(f"H{level}" for level in ends)
        found.append(Column(levels if group == WHOLE_ARRAY else f"{group} {levels}", tuple(splits)))
    return found


def level_names(plan: Plan) -> list[str]:
    """Return the names of the columns."""
    return [column.name for column in columns(plan)]


def words_of(plan: Plan) -> int:
    """Return the index of the words in which a plan's choices are shown: those of grids for all if one is a grid."""
    space = parse_space(plan.space, None)
    choices = {(split.choice(layer), split.ways) for split in plan.splits for layer in split.choices}
    words = vocabulary({dim for choice, _ in choices for dim, _ in choice.degrees}.union(space.dims))
    texts = (choice_word(choice.degrees, ways, words, grids=space.grids) for choice, ways in choices)
    return GRIDS if any(text[-1].isdecimal() for text in texts) else words


def namer(plan: Plan) -> Callable[[Split, str], str]:
    """Return the function that names a layer's choice at a split, in the words of one paper for the whole plan.

    At a split inside the stages of another device group a layer has no choice, and the name is empty.
    """
    grids, words = parse_space(plan.space, None).grids, words_of(plan)

    def word(split: Split, layer: str) -> str:
        if layer not in split.choices:
            return ""
        choice = split.choice(layer)
        return choice_word(choice.degrees, split.ways, words, grids=grids)

    return word


def grid(plan: Plan) -> list[tuple[str, list[str], list[str | None], float]]:
    """Return each layer's name, the words and the dim of its choice in each column, and its cost."""
    shown, word = columns(plan), namer(plan)
    rows = []
    for layer in plan.layers:
        cells, dims = [], []
        for column in shown:
            texts = [word(split, layer) for split in column.splits]
            found = dict.fromkeys(split.dim(layer) for split in column.splits if layer in split.choices)
            cells.append(" ".join(filter(None, texts)))
            dims.append(next(iter(found)) if len(found) == 1 else None)
        rows.append((layer, cells, dims, sum(split.costs.get(layer, 0) for split in plan.summed)))
    return rows


def stage_numbers(plan: Plan) -> dict[str, int]:
    """Return the number of each layer's stage, from 1; an empty mapping without stages."""
    if plan.stages is None or not plan.staged:
        return {}
    return {layer: number for number, stage in enumerate(plan.stages.stages, 1) for layer in stage.layers}


def question(plan: Plan) -> str:
    """Describe the network and the array."""
    if plan.heterogeneous:
        arrays = plan.arrays or {}
        array = " + ".join(f"{math.prod(ways)} {name}" for name, ways in arrays.items())
        devices = sum(math.prod(ways) for ways in arrays.values())
        if plan.stages is not None and plan.staged:
            own, roots = plan.stages.of_each_group, {group.name: group.root for group in plan.groups}
            each = plan.stages.groups or (WHOLE_ARRAY,)
            array = f"{_counted(plan.stages)}: " + " + ".join(
                f"{own} of {math.prod(arrays[name])} {name}"
                for root in each
                for name, under in roots.items()
                if under == root
            )
            devices = plan.num_devices
    else:
        outside = 0 if plan.stages is None else plan.stages.outside or 0
        outer, array = ("x".join(map(str, ways)) for ways in (plan.array[:outside], plan.array[outside:]))
        devices = plan.num_devices
        if plan.stages is not None and plan.staged:
            times = f"{outer} times " if outer else ""
            array = times + _counted(plan.stages) + (f" of {array}" if array else "")
    return f"{plan.model.name}, batch {plan.model.batch}, {devices} devices ({array})"


def share_lines(plan: Plan) -> list[str]:
    """Return the shares at every uneven split of a heterogeneous machine, and the idle groups."""
    lines = []
    for split in plan.splits:
        if split.sides is None:
            continue
        named = [
            f"{record.group} {share:.4g}" if share else f"{record.group} idle"
            for record, share in zip(split.sides, split.shares, strict=True)
        ]
        own = len(split.layer_shares or ())
        apart = f"; {own} layer{'s' * (own > 1)} with shares of their own" if own else ""
        group = "" if split.group == WHOLE_ARRAY else f" of {split.group}"
        lines.append(f"H{split.level + 1}{group}: shares {', '.join(named)}{apart}")
    return lines


def on_machine(score: Score | None) -> str:
    """Name the machine with its changed values."""
    if score is None:
        return ""
    changes = "".join(f" {name}={value}" for name, value in score.hardware_changes.items())
    return f"on {score.hardware}{changes}"


def headline(plan: Plan) -> str:
    """Describe the network, the array and the strategy."""
    return f"{question(plan)}, strategy {plan.strategy}"


def summary(plan: Plan) -> list[str]:
    """Return the lines below a plan's grid: its costs, and its claim of optimality."""
    alone = ", in all stages together" if plan.staged else ""
    if plan.score and plan.score.overlapped_s and plan.cost.name == "time":
        alone = ", one thing after another"
    lines = [
        *share_lines(plan),
        f"{plan.cost.name} {amount(plan.cost.value, plan.cost.unit)} a step{alone}, counted by {cost_convention(plan)}",
        plan.claim,
    ]
    weight = plan.cost.parameters.get("inter_weight", 1)
    if weight != 1:
        lines.append(f"communication between layers weighs {weight}")
    if plan.pins:
        lines.append(f"pinned: {', '.join(plan.pins)}")
    if plan.baselines is not None:
        lines.append(baselines_line(plan.baselines))
    if plan.refined is not None:
        lines.append(refinement_line(plan.refined))
    lines += chunk_lines(plan.chunks, plan.score)
    return lines if plan.score is None else [*lines, *score_lines(plan, plan.score)]


def baselines_line(timed: BaselinesRecord) -> str:
    """Return the engine's times of the search's plan and of the baselines."""
    times = (f"{name} {format_seconds(seconds)}" for name, seconds in timed.step_s.items())
    return f"timed by the engine: {', '.join(times)}; taken: {timed.taken}"


def refinement_line(refined: RefinementRecord) -> str:
    """Describe the gain from refinement."""
    gain = 1 - refined.after_s / refined.before_s if refined.before_s else 0.0
    times = f"{format_seconds(refined.before_s)} to {format_seconds(refined.after_s)}"
    choices = f"{refined.changed} choice{'s' * (refined.changed != 1)}"
    return f"refined {choices} by the engine's time: {times}, {gain:.2%} less"


def chunk_lines(chunks: ChunksRecord | None, score: Score | None = None) -> list[str]:
    """Describe the chunks of the gradient exchange, and their gain if the plan's own score is given."""
    if chunks is None:
        return []
    gained = ""
    if score is not None and 0 < chunks.alone_s != score.time_s:
        gain = 1 - score.time_s / chunks.alone_s
        against = f"{format_seconds(score.time_s)} against {format_seconds(chunks.alone_s)}"
        gained = f"; {against} with each layer by itself, {abs(gain):.2%} {'less' if gain > 0 else 'more'}"
    return [f"gradients in {chunks.words}{gained}"]


def score_lines(plan: Plan, score: Score) -> list[str]:
    """Summarise a score of a plan: its totals, the items of each total, and the times of each group or stage."""
    stages = plan.stages
    energy = "" if score.energy_j is None else f", {format_joules(score.energy_j)}"
    counted = f"counted by {score_convention(plan, score)}"
    moved = f"{format_bytes(score.communication_bytes)} of communication {counted}"
    lines = [
        f"{on_machine(score)}: {format_seconds(score.time_s)} a step{energy}, {moved}, {memory_line(score)}",
        f"time: {items(score.time, format_seconds)}" + _overlapped(score),
    ]
    if score.overlapped_s:
        lines.append(f"critical path: {items(score.critical, format_seconds)}")
    if score.energy is not None:
        lines.append(f"energy: {items(score.energy, format_joules)}")
    lines.append(f"memory: {items(score.memory, format_bytes)} ({score.optimizer})")
    if stages is not None and stages.pipelined:
        groups = score.groups or ()
        lines += [schedule_line(stages)]
        lines += [_stage_line(group, stages.stages[stage_of(group.group)]) for group in groups]
    else:
        lines += [_group_line(group) for group in score.groups or ()]
    if score.element_bytes != score.word_bytes:
        sizes = f"elements are {score.element_bytes} B, words of {score.hardware} {score.word_bytes} B"
        lines.append(f"{sizes}: its arithmetic is for its words")
    return lines


def _group_line(group: GroupScore) -> str:
    spent = {"computes": group.computing_s, "receives": group.communicating_s, "idle": group.idle_s}
    times = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in spent.items())
    return f"{group.group}: {group.devices} devices, {times}, {memory_line(group)}"


def _counted(stages: StagesRecord) -> str:
    """Return the number of stages in words."""
    return f"{len(stages.stages)} stage{'s' * (len(stages.stages) > 1)}"


def schedule_line(stages: StagesRecord) -> str:
    """Describe the schedule of the stages and the time of the bottleneck."""
    each = f"{_counted(stages)} by {stages.schedule}, mini-batches whole"
    if SCHEDULES[stages.schedule].flushes:
        several = f"{stages.microbatches} microbatch{'es' * (stages.microbatches > 1)}"
        parts = f" in {stages.parts} parts" if stages.parts_of_each else ""
        each = f"{_counted(stages)} by {stages.schedule}{parts}, {several} a mini-batch"
    return f"{each}; bottleneck: the costliest is busy {format_seconds(stages.bottleneck_s)} a step"


def _stage_line(group: GroupScore, stage: StageRecord) -> str:
    """Return the times and the memory of one stage."""
    spent = {
        "busy": stage.busy_s,
        "computes": group.computing_s,
        "receives": group.communicating_s,
        "idle": group.idle_s,
    }
    times = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in spent.items())
    devices = f"{group.devices} device{'s' * (group.devices > 1)}"
    devices += f" of {stage.group}" if stage.group is not None else ""
    kept = f"{stage.in_flight} in flight, staleness {stage.staleness}"
    return f"{group.group}, {stage.ends}: {devices}, {times}, {kept}, {memory_line(group)}"


def unfit_line(score: Score | None) -> str:
    """Return the line that says by how much a plan exceeds its machine's memory; empty if it fits."""
    if score is None or score.fits:
        return ""
    groups = [group for group in score.groups or () if not group.fits]
    each = [f"a device of {group.group} {_needs(group)}" for group in groups] or [f"a device {_needs(score)}"]
    more = f"; and {len(each) - 3} more" if len(each) > 3 else ""
    return f"does not fit {score.hardware}: {'; '.join(each[:3])}{more}"


def _needs(score: Score | GroupScore) -> str:
    """Compare a device's need with its memory, in bytes if the rounded numbers are equal."""
    amounts = score.memory_bytes, score.capacity_bytes or 0.0
    needed, there = map(format_bytes, amounts)
    if needed == there:
        needed, there = (f"{math.ceil(number):,} B" for number in amounts)
    return f"needs {needed} and has {there}"


def memory_line(score: Score | GroupScore) -> str:
    """Return the bytes held on each device, and whether they fit."""
    held = format_bytes(score.memory_bytes)
    if score.capacity_bytes is None:
        return f"{held} held on each device"
    of = f"{held} of {format_bytes(score.capacity_bytes)}"
    return f"{of} held on each device" if score.fits else f"does not fit: {of} on each device"


def _overlapped(score: Score) -> str:
    return f", {format_seconds(score.overlapped_s)} of it overlapped" if score.overlapped_s else ""


def items(amounts: Mapping[str, float], shown: Callable[[float], str]) -> str:
    """Name the items of a total that are not 0."""
    return ", ".join(f"{name} {shown(number)}" for name, number in amounts.items() if number) or "none"
