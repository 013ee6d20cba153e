"""Pictures of timelines with a row for each resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.files.timelines import TimelineFigure
from hypar.reports.page.numbers import seconds
from hypar.reports.palette import TIMES

if TYPE_CHECKING:
    from hypar.timeline import Timeline

COLOURS = {kind: shades.light for kind, shades in TIMES.items()}
"""The colour of each kind of task on a white ground."""


def resources_figure(title: str, timeline: Timeline) -> TimelineFigure:
    """Return a timeline with a row for each resource."""
    return TimelineFigure(title=title, timeline=timeline, colours=COLOURS, shown=seconds)
