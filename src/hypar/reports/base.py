"""What a report is, and the words that all of them use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hypar.space import parse_space
from hypar.units import format_bytes, format_count, format_joules, format_seconds
from hypar.words import choice_word, vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hypar.plan import Plan, RefinementRecord
    from hypar.score import Score


COLOURS = {
    "batch": "#9ecae9",
    "in_channels": "#ffbf79",
    "out_channels": "#d6a5c9",
    "channels": "#ffbf79",
    "height": "#88d27a",
    "width": "#83bcb6",
    "groups": "#ff9d98",
}
"""What colour each dim has, in a terminal and on a page."""


class Report(Protocol):
    """Writes a plan for people."""

    def render(self, plan: Plan) -> str:
        """The plan as a text."""


def amount(number: float, unit: str) -> str:
    """A cost with its unit."""
    shown = {"bytes": format_bytes, "seconds": format_seconds}.get(unit)
    return shown(number) if shown else f"{format_count(number)} {unit}"


def level_names(plan: Plan) -> list[str]:
    """``H1`` for the outermost level."""
    return [f"H{split.level + 1}" for split in plan.splits]


def grid(plan: Plan) -> list[tuple[str, list[str], list[str | None], float]]:
    """For each layer its name, the word and the dims of each level's choice, and its cost over all levels."""
    rows = [(layer, plan.choices(layer)) for layer in plan.layers]
    used = {dim for _, choices in rows for choice in choices for dim in choice.divided}
    space = parse_space(plan.space)
    words = vocabulary(used.union(space.dims))
    return [
        (
            layer,
            [
                choice_word(choice.degrees, ways, words, grids=space.grids)
                for choice, ways in zip(choices, plan.array, strict=True)
            ],
            list(plan.dims(layer)),
            sum(split.costs[layer] for split in plan.splits),
        )
        for layer, choices in rows
    ]


def question(plan: Plan) -> str:
    """Which network and array."""
    array = "x".join(str(ways) for ways in plan.array)
    return f"{plan.model.name}, batch {plan.model.batch}, {plan.num_devices} devices ({array})"


def on_machine(score: Score | None) -> str:
    """Which machine, with what was changed of it."""
    if score is None:
        return ""
    changes = "".join(f" {name}={value}" for name, value in score.hardware_changes.items())
    return f"on {score.hardware}{changes}"


def headline(plan: Plan) -> str:
    """Which network, array and strategy."""
    return f"{question(plan)}, strategy {plan.strategy}"


def summary(plan: Plan) -> list[str]:
    """The lines below a plan's grid: what it costs and what is claimed of it."""
    alone = (
        ", one thing after another"
        if plan.score and plan.score.overlapped_s and plan.cost.name == "time"
        else ""
    )
    lines = [f"{plan.cost.name} {amount(plan.cost.value, plan.cost.unit)} a step{alone}", plan.claim]
    weight = plan.cost.parameters.get("inter_weight", 1)
    if weight != 1:
        lines.append(f"amounts between layers weigh {weight}")
    if plan.pins:
        lines.append(f"pinned: {', '.join(plan.pins)}")
    if plan.refined is not None:
        lines.append(refinement_line(plan.refined))
    return lines if plan.score is None else [*lines, *score_lines(plan.score)]


def refinement_line(refined: RefinementRecord) -> str:
    """What refinement gained."""
    gain = 1 - refined.after_s / refined.before_s if refined.before_s else 0.0
    times = f"{format_seconds(refined.before_s)} to {format_seconds(refined.after_s)}"
    choices = f"{refined.changed} choice{'s' * (refined.changed != 1)}"
    return f"refined {choices} by the engine's time: {times}, {gain:.2%} less"


def score_lines(score: Score) -> list[str]:
    """A score in a few lines: the totals, and the items that they sum."""
    energy = "" if score.energy_j is None else f", {format_joules(score.energy_j)}"
    moved = f"{format_bytes(score.communication_bytes)} received"
    lines = [
        f"{on_machine(score)}: {format_seconds(score.time_s)} a step{energy}, {moved}, {memory_line(score)}",
        f"time: {_items(score.time, format_seconds)}" + _overlapped(score),
    ]
    if score.overlapped_s:
        lines.append(f"critical path: {_items(score.critical, format_seconds)}")
    if score.energy is not None:
        lines.append(f"energy: {_items(score.energy, format_joules)}")
    lines.append(f"memory: {_items(score.memory, format_bytes)} ({score.optimizer})")
    if score.element_bytes != score.word_bytes:
        sizes = f"elements are {score.element_bytes} B, words of {score.hardware} {score.word_bytes} B"
        lines.append(f"{sizes}: its arithmetic is for its words")
    return lines


def memory_line(score: Score) -> str:
    """What each device holds, and whether it fits."""
    held = format_bytes(score.memory_bytes)
    if score.capacity_bytes is None:
        return f"{held} held on each device"
    of = f"{held} of {format_bytes(score.capacity_bytes)}"
    return f"{of} held on each device" if score.fits else f"does not fit: {of} on each device"


def _overlapped(score: Score) -> str:
    """How much of the time runs beside other work."""
    return f", {format_seconds(score.overlapped_s)} of it overlapped" if score.overlapped_s else ""


def _items(items: Mapping[str, float], shown: Callable[[float], str]) -> str:
    """The items of a sum that are not nothing."""
    return ", ".join(f"{name} {shown(number)}" for name, number in items.items() if number) or "none"
