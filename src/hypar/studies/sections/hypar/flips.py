"""Choices that differ between HyPar's plans and those of other counts and machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.planning.planner import plan_model
from hypar.schedule.scoring import score_step
from hypar.sharding.conventions import MOVED
from hypar.studies.page import Section
from hypar.studies.sections.hypar.networks import LEVELS, NETWORKS
from hypar.studies.sections.hypar.physical import MACHINE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.plan.plan import Plan
    from hypar.studies.evaluation import Evaluation
    from hypar.studies.sections.hypar.physical import Both

Plans = dict[str, "Plan"]
"""A plan for each network."""

WORDS = {"batch": "dp", "in_channels": "mp"}


def flips(before: Mapping[str, Plan], after: Mapping[str, Plan]) -> list[tuple[str, str, str, str, str]]:
    """Return the choices that differ: network, layer, levels, from, to; levels that change alike are one row."""
    found: dict[tuple[str, str, str, str], list[int]] = {}
    for name, plan in before.items():
        for layer in plan.layers:
            for level, (old, new) in enumerate(zip(plan.dims(layer), after[name].dims(layer), strict=True)):
                if old != new:
                    found.setdefault((name, layer, WORDS[old or ""], WORDS[new or ""]), []).append(level)
    return [
        (name, layer, ", ".join(f"H{level + 1}" for level in levels), old, new)
        for (name, layer, old, new), levels in found.items()
    ]


def choices_that_differ(ran: Both) -> Section:
    """Compare plans of HyPar's search and of least time, on both machines and by both counts."""
    paper = {name: ran.published.plans[name, "hypar"] for name in NETWORKS}
    moved = {name: ran.moved.plans[name, "hypar"] for name in NETWORKS}
    least = [_least(ran.published), _least(ran.moved)]
    kinds = {
        "count": flips(paper, moved),
        "machine": flips(*least),
        "search": flips(moved, least[1]),
    }
    slower = _slower(ran.moved, paper, moved)
    return Section(
        title="Choices that differ on hmc-physical",
        text=(
            "HyPar's search minimises bytes, so a machine changes none of its choices; what is counted does. Differences by"
            " *count* are from its published plans, whose bytes between layers weigh half, to those that it finds for what a"
            " correct execution moves: convolutions before a pool no longer divide their input channels, as their sums come"
            f" before the pool. On `{MACHINE}`, by what moves, {slower}. Differences by *machine* are from the plans of least time on"
            f" `hmc` to those on `{MACHINE}`, all levels at once and by what moves: {_many(kinds['machine'])}."
            f" Differences by *search* are from its plans for what moves to those of least time on `{MACHINE}`:"
            f" {_many(kinds['search'])}, in {_many_networks(kinds['search'])}."
        ),
        heads=("by", "network", "layer", "levels", "from", "to"),
        rows=tuple((kind, *row) for kind, rows in kinds.items() for row in rows),
    )


def _least(ran: Evaluation) -> Plans:
    """Plan each network for least time on the evaluation's machine, by what moves."""
    return {
        name: plan_model(
            ran.graphs[name], levels=LEVELS, strategy="hypar", cost="time", search="joint",
            hardware=ran.hardware, convention=MOVED,
        )
        for name in NETWORKS
    }  # fmt: skip


def _slower(ran: Evaluation, before: Plans, after: Plans) -> str:
    """Say which networks the former plans slow down most, by the evaluation's count."""
    gains = {}
    for name in NETWORKS:
        graph, _, setting = ran.setting(name, "hypar")
        times = [
            score_step(graph, [plan.choices(layer) for layer in plan.layers], setting).time_s
            for plan in (before[name], after[name])
        ]
        gains[name] = times[0] / times[1] - 1
    slower = [f"{name} by {gain:.1%}" for name, gain in gains.items() if gain > GAIN]
    return f"the published plans are slower on {', '.join(slower)}" if slower else "neither plan is slower"


GAIN = 1e-3
"""Gains below it are not named."""


def _many(rows: list[tuple[str, str, str, str, str]]) -> str:
    return "none" if not rows else f"{len(rows)} {'row' if len(rows) == 1 else 'rows'}"


def _many_networks(rows: list[tuple[str, str, str, str, str]]) -> str:
    return ", ".join(dict.fromkeys(row[0] for row in rows)) or "no network"
