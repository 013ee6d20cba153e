"""What a report is, and the words that all of them use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hypar.space import parse_space
from hypar.units import format_bytes, format_count
from hypar.words import WORDS, vocabulary

if TYPE_CHECKING:
    from hypar.plan import Plan


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
    return format_bytes(number) if unit == "bytes" else f"{format_count(number)} {unit}"


def level_names(plan: Plan) -> list[str]:
    """``H1`` for the outermost level."""
    return [f"H{split.level + 1}" for split in plan.splits]


def grid(plan: Plan) -> list[tuple[str, list[str], list[str | None], float]]:
    """For each layer its name, the word and the dim of each level's choice, and its cost over all levels."""
    rows = [(layer, plan.dims(layer)) for layer in plan.layers]
    used = {dim for _, dims in rows for dim in dims if dim is not None}
    words = vocabulary(used.union(parse_space(plan.space).dims))
    return [
        (
            layer,
            [WORDS[dim][words] for dim in dims],
            list(dims),
            sum(split.costs[layer] for split in plan.splits),
        )
        for layer, dims in rows
    ]


def question(plan: Plan) -> str:
    """Which network and array."""
    array = "x".join(str(ways) for ways in plan.array)
    return f"{plan.model.name}, batch {plan.model.batch}, {plan.num_devices} devices ({array})"


def headline(plan: Plan) -> str:
    """Which network, array and strategy."""
    return f"{question(plan)}, strategy {plan.strategy}"


def summary(plan: Plan) -> list[str]:
    """The lines below a plan's grid: what it costs and what is claimed of it."""
    lines = [f"{plan.cost.name} {amount(plan.cost.value, plan.cost.unit)} a step", plan.claim]
    weight = plan.cost.parameters.get("inter_weight", 1)
    if weight != 1:
        lines.append(f"amounts between layers weigh {weight}")
    if plan.pins:
        lines.append(f"pinned: {', '.join(plan.pins)}")
    return lines
