"""Scores: a row for each item, and the timeline of the step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import origin_of
from hypar.errors import OptionError
from hypar.files.timelines import TimelineFigure
from hypar.planning.replay import run_plan
from hypar.planning.sources import network_of, scored_on
from hypar.reports.formats.base import headline, on_machine, unfit_line
from hypar.reports.page.fragment import fragment
from hypar.reports.page.numbers import joules, num_bytes, seconds
from hypar.reports.palette import TIMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.plan.score import Score
    from hypar.planning.replay import ScoredStep
    from hypar.reports.views.base import View

COLOURS = {kind: shades.light for kind, shades in TIMES.items()}
"""The colour of each kind of task on a white ground."""


class ScoreView:
    """The view of a score."""

    def rows(self, score: Score) -> list[dict[str, Any]]:
        """Return one row for each item of each quantity, the totals first."""
        return [
            {"quantity": quantity, "item": item, "value": value, "unit": unit}
            for quantity, unit, total, items in _quantities(score)
            for item, value in {"total": total, **items}.items()
        ]

    def html(self, score: Score) -> str:
        """Return a table with one row for each quantity."""
        rows = [
            [quantity, _shown(total, unit), _items(items, unit)]
            for quantity, unit, total, items in _quantities(score)
            if quantity not in {"critical path", "busy"}
        ]
        title = f"{on_machine(score).removeprefix('on ')}: {seconds(score.time_s)} a step"
        notes = [unfit_line(score)] if not score.fits else []
        return fragment(title, ["quantity", "total", "items"], rows, notes)

    def drawing(self, score: Score) -> TimelineFigure:
        """Run the step again and return its timeline.

        Raises:
            OptionError: the score was read without its plan.
        """
        origin = origin_of(score)
        if origin.plan is None:
            hint = "hypar.score_plan(plan) gives a score that knows it"
            raise OptionError("plot", "the score does not know its plan", hint=hint)
        network, machine = network_of(score), scored_on(score)
        return timeline_figure(
            run_plan(origin.plan, hardware=machine, model=network, optimizer=score.optimizer)
        )


def timeline_figure(ran: ScoredStep) -> TimelineFigure:
    """Return the timeline of a step: a row for each layer."""
    title = f"{headline(ran.plan)} {on_machine(ran.score)}: {seconds(ran.score.time_s)} a step"
    names = [layer.name for layer in ran.graph.nodes(ran.plan.graph).layers]
    return TimelineFigure(
        title=title,
        timeline=ran.timeline,
        colours=COLOURS,
        shown=seconds,
        rows=[names[layer] for layer in ran.step.layers],
        order=names,
        strips=[] if ran.stages is not None else [(min(lanes), max(lanes) + 1) for lanes in ran.step.lanes],
    )


def _quantities(score: Score) -> list[tuple[str, str, float | None, Mapping[str, float]]]:
    """Return each quantity's name, unit, total and items."""
    return [
        ("time", "s", score.time_s, score.time),
        ("critical path", "s", score.time_s, score.critical),
        ("busy", "s", score.time_s, score.busy),
        ("energy", "J", score.energy_j, score.energy or {}),
        ("communication", "B", score.communication_bytes, score.communication),
        ("memory", "B", score.memory_bytes, score.memory),
    ]


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return "not known"
    if unit == "J":
        return joules(value)
    return seconds(value) if unit == "s" else num_bytes(value)


def _items(items: Mapping[str, float], unit: str) -> str:
    return ", ".join(f"{name} {_shown(value, unit)}" for name, value in items.items() if value)


plugin: View[Score] = ScoreView()
