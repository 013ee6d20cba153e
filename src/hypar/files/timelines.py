"""Pictures of timelines: a row for each layer, or for each resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypar.files.canvas import SERIES, TEXT, blank, plain, value_axis
from hypar.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hypar.timeline import Timeline

MOST_ROWS = 200
"""Number of a timeline's rows drawn at full height and labelled."""

_OFF_PATH = 0.4
"""Height of a task off the critical path relative to one on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineFigure:
    """The data of a timeline's picture.

    Attributes:
        title: title of the picture.
        timeline: the tasks, and when each ran.
        colours: colour of each kind of task; other kinds have those of series.
        rows: the row of each task, as the name of its layer; by default its resource.
        order: the rows, top to bottom; by default in the order of their first tasks.
        strips: for each task its first strip of the row and the one after its last, if groups of devices work side by
            side; by default one strip.
        shown: function that formats a time.
    """

    title: str
    timeline: Timeline
    colours: Mapping[str, str]
    rows: Sequence[str] = ()
    order: Sequence[str] = ()
    strips: Sequence[tuple[int, int]] = ()
    shown: Callable[[float], str] = format_seconds

    def picture(self) -> Any:
        """Draw the timeline with matplotlib; tasks on the critical path are higher than others."""
        names = self.rows or [task.resource for task in self.timeline.tasks]
        present = {*names}
        listed = [name for name in self.order or names if name in present]
        rows = {name: row for row, name in enumerate(dict.fromkeys(listed))}
        canvas, axes = blank(11, 1.3 + 0.27 * max(2, min(len(rows), MOST_ROWS)), self.title)
        spans = self._spans([rows[name] for name in names])
        kinds = [kind for kind in self.colours if kind in self.timeline.by_kind]
        others = [kind for kind in self.timeline.by_kind if kind not in self.colours]
        for number, kind in enumerate([*kinds, *others]):
            own = [at for at, task in enumerate(self.timeline.tasks) if task.kind == kind]
            middles, heights = ([spans[at][side] for at in own] for side in (0, 1))
            seconds = [self.timeline.tasks[at].seconds for at in own]
            starts = [self.timeline.starts[at] for at in own]
            colour = self.colours.get(kind, SERIES[number % len(SERIES)])
            axes.barh(middles, seconds, left=starts, label=plain(kind), color=colour, height=heights)
        step = -(-len(rows) // MOST_ROWS) or 1
        axes.set_yticks(list(rows.values())[::step], [plain(name) for name in rows][::step])
        axes.invert_yaxis()
        axes.set_xlim(0, self.timeline.makespan or 1)
        value_axis(axes, "x", self.shown)
        if rows:
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=TEXT, frameon=False)
        return canvas

    def _spans(self, rows: Sequence[int]) -> list[tuple[float, float]]:
        """Return the middle and the height of each task's bar."""
        strips = self.strips or [(0, 1)] * len(rows)
        count = max((last for _, last in strips), default=1)
        known = any(holder is not None for holder in self.timeline.held_by)
        on_path = set(self.timeline.critical_path) if known else {*range(len(rows))}
        found = []
        for at, (row, (first, last)) in enumerate(zip(rows, strips, strict=True)):
            height = 0.8 * (last - first) / count
            middle = row - 0.4 + 0.8 * (first + last) / 2 / count
            found.append((middle, height if at in on_path else height * _OFF_PATH))
        return found
