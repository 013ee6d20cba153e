"""Scores: a row for each item, and the timeline of the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.files.timelines import TimelineFigure
from hypar.reports.formats.base import headline, on_machine
from hypar.reports.listings.timelines import COLOURS
from hypar.reports.page.numbers import seconds

if TYPE_CHECKING:
    from hypar.planning.replay import ScoredStep


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
