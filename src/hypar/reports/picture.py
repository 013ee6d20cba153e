"""A plan as one picture: the grid of its choices beside the step that they make, as an SVG that needs nothing else.

A row is a layer, from its choices over its cost to the times at which it computes and receives. The picture stands on
a card of its own ground, as a page that shows it as an image does not set its colours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import OptionError
from hypar.reports.formats.base import grid, headline, level_names, on_machine
from hypar.reports.page.cells import DIM_TEXTS, colour
from hypar.reports.page.css import MONO, SANS
from hypar.reports.page.html import Markup, markup, tag
from hypar.reports.page.numbers import amount, seconds
from hypar.reports.page.svg import ticks
from hypar.reports.palette import DIMS, PAGE, TIMES
from hypar.sharding.dims import GRIDS, WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.planning.replay import ScoredStep

WIDTH, MARGIN, TOP, ROW = 880, 20, 92, 19
LETTER, TEXT_LETTER = 7.3, 6.6
"""Widths of a letter of the monospaced font and of a usual letter of the other, in pixels."""

TOUCHING = 0.25
"""Most pixels between two bars of one kind that are drawn as one."""

TICKS = 5
"""Most marks of the time axis besides 0."""


Part = tuple[str, str]
"""The name of the colours of a part of a cell, and its word."""


class Layout(NamedTuple):
    """The positions of the columns, in pixels.

    Attributes:
        cells: left edge and width of the cells of each level.
        cost: right edge of the costs.
        start: where the step starts.
        end: where the step ends.
    """

    cells: tuple[tuple[float, float], ...]
    cost: float
    start: float
    end: float


def require_drawable(plan: Plan) -> None:
    """Raise if a plan has no picture.

    Raises:
        OptionError: the plan has stages, or is for a heterogeneous machine.
    """
    if plan.staged or plan.heterogeneous:
        found = "the plan has stages" if plan.staged else "the plan is for a heterogeneous machine"
        raise OptionError("picture", found, "a plan without stages for identical devices; see --plot")


def picture(ran: ScoredStep, baseline: Score | None = None) -> str:
    """Return the picture of a plan and its step as SVG.

    Args:
        ran: the step, without stages and on identical devices.
        baseline: the score of data parallelism, to compare with.
    """
    plan = ran.plan
    rows = grid(plan)
    layout = _layout([name for name, *_ in rows], list(zip(*(cells for _, cells, *_ in rows), strict=True)))
    bottom = TOP + ROW * len(rows)
    legend = _legend(ran, layout, bottom + 47)
    width, height = layout.end + MARGIN, legend[-1][0] + 23
    against = f" against {seconds(baseline.time_s)} with data parallelism" if baseline else ""
    time = f"{seconds(ran.score.time_s)} a step{against}"
    title = f"{plan.model.name} on {plan.num_devices} devices: {time}"
    about = f"{len(rows)} layers down. Left, the choice of each at {len(plan.splits)} levels and its {plan.cost.name}. "
    about += "Right, when each computes and receives."
    body = [
        tag("title", title, id="t"),
        tag("desc", about, id="d"),
        tag("style", Markup(_style())),
        tag("rect", class_="card", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=8),
        tag("text", title, class_="h", x=MARGIN, y=34),
        tag("text", f"{headline(plan)} {on_machine(ran.score)}", class_="mt", x=MARGIN, y=57),
        *_heads(ran, layout),
        *_axis(ran, layout, bottom),
        *_grid(ran, layout),
        *_bars(ran, layout),
        *(mark for _, mark in legend),
    ]
    size = {"viewBox": f"0 0 {width:g} {height:g}", "width": f"{width:g}", "height": f"{height:g}"}
    spoken = {"role": "img", "aria_labelledby": "t d"}
    inside = Markup("\n" + "\n".join(body) + "\n")
    return tag("svg", inside, xmlns="http://www.w3.org/2000/svg", **size, **spoken) + "\n"


def _style() -> str:
    """Return the fonts, and the colours of both schemes."""
    fonts = (
        f"text{{font:12.5px {SANS};font-variant-numeric:tabular-nums}}.c{{font-family:{MONO};font-size:12px}}"
        ".h{font-size:19px;font-weight:650}"
    )
    return f"{fonts}{_colours(0)}@media(prefers-color-scheme:dark){{{_colours(1)}}}"


def _colours(scheme: int) -> str:
    """Return the colours of the light scheme, 0, or of the dark one, 1."""
    page = {name: shades[scheme] for name, shades in PAGE.items()}
    rules = [
        f"text{{fill:{page['ink']}}}.mt{{fill:{page['muted']}}}",
        f".card{{fill:{page['ground']};stroke:{page['line']}}}.gl{{stroke:{page['line']}}}.rl{{stroke:{page['rule']}}}",
    ]
    for dim, colours in DIMS.items():
        ground, text = ((colours.light, colours.light_text), (colours.dark, colours.dark_text))[scheme]
        rules.append(f".{dim}{{fill:{ground}}}.{dim}-t{{fill:{text}}}")
    rules.append(f".whole{{stroke:{page['rule']}}}")
    rules += [f".{kind}{{fill:{shades[scheme]}}}" for kind, shades in TIMES.items()]
    return "".join(rules)


def _layout(layers: list[str], columns: list[tuple[str, ...]]) -> Layout:
    """Return the positions of columns as wide as their longest words; the step has at least half of the picture."""
    left = MARGIN + LETTER * max(len(name) for name in (*layers, "layer")) + 14
    cells = []
    for words in columns:
        wide = max(27, round(LETTER * max(map(len, words))) + 11)
        cells.append((left, wide))
        left += wide + 2
    cost = left + 80
    return Layout(tuple(cells), cost, cost + 24, max(WIDTH - MARGIN, cost + 24 + WIDTH / 2))


def _heads(ran: ScoredStep, layout: Layout) -> Iterator[Markup]:
    """Yield the names of the columns."""
    yield tag("text", "layer", class_="mt", x=MARGIN, y=TOP - 9)
    for name, (left, wide) in zip(level_names(ran.plan), layout.cells, strict=True):
        yield tag("text", name, class_="mt", x=f"{left + wide / 2:g}", y=TOP - 9, text_anchor="middle")
    yield tag("text", ran.plan.cost.name, class_="mt", x=f"{layout.cost:g}", y=TOP - 9, text_anchor="end")


def _axis(ran: ScoredStep, layout: Layout, bottom: int) -> Iterator[Markup]:
    """Yield the marks of the time axis, and a line where the backward phase starts."""
    whole = ran.timeline.makespan
    for time in ticks(whole, TICKS):
        x = f"{_at(layout, time, whole):.1f}"
        yield tag("line", class_="gl", x1=x, x2=x, y1=TOP, y2=bottom)
        anchor = "middle" if time else "start"
        yield tag("text", seconds(time), class_="mt", x=x, y=bottom + 16, text_anchor=anchor)
    returned = [
        start
        for task, start in zip(ran.timeline.tasks, ran.timeline.starts, strict=True)
        if task.kind in {"backward", "gradient"}
    ]
    if returned:
        place = _at(layout, min(returned), whole)
        x = f"{place:.1f}"
        yield tag("line", class_="rl", x1=x, x2=x, y1=TOP - 20, y2=bottom, stroke_dasharray="3 3")
        yield tag("text", "forward", class_="mt", x=f"{place - 6:.1f}", y=TOP - 9, text_anchor="end")
        yield tag("text", "backward, gradient", class_="mt", x=f"{place + 6:.1f}", y=TOP - 9)


def _at(layout: Layout, seconds: float, whole: float) -> float:
    return layout.start + (layout.end - layout.start) * (seconds / whole if whole else 0.0)


def _grid(ran: ScoredStep, layout: Layout) -> Iterator[Markup]:
    """Yield each layer's name, choices and cost, over a thin line."""
    for number, ((name, *_, cost), cells) in enumerate(zip(grid(ran.plan), _cells(ran.plan), strict=True)):
        y = TOP + ROW * number
        yield tag(
            "line", class_="gl", x1=MARGIN, x2=f"{layout.end:g}", y1=y + 18.5, y2=y + 18.5, opacity=".6"
        )
        yield tag("text", name, class_="c", x=MARGIN, y=y + 13.5)
        for parts, (left, wide) in zip(cells, layout.cells, strict=True):
            yield from _cell(parts, left, wide, y)
        right = f"{layout.cost:g}"
        yield tag("text", amount(cost, ran.plan.cost.unit), x=right, y=y + 13.5, text_anchor="end")


def _cell(parts: list[Part], left: float, wide: float, y: int) -> Iterator[Markup]:
    """Yield the ground and the word of each part of a choice."""
    letters = sum(len(text) for _, text in parts)
    for kind, text in parts:
        share = round(wide * len(text) / letters, 1)
        yield tag("rect", class_=kind, x=f"{left:g}", y=y + 1.5, width=f"{share:g}", height=15, rx=2.5)
        middle = f"{left + share / 2:.1f}"
        yield tag("text", text, class_=f"c {kind}-t", x=middle, y=y + 13.3, text_anchor="middle")
        left = round(left + share, 1)


def _cells(plan: Plan) -> list[list[list[Part]]]:
    """Return the parts of each layer's choice at each level."""
    return [
        [_parts(split.choice(layer).degrees, word) for split, word in zip(plan.splits, words, strict=True)]
        for layer, words, *_ in grid(plan)
    ]


def _parts(degrees: tuple[tuple[str, int], ...], word: str) -> list[Part]:
    """Return the parts of a choice, given its word: one for each dim, if it divides several."""
    if len(degrees) < 2:
        words = WORDS["channels"].index(word) if word in WORDS["channels"] else GRIDS
        return [(colour(degrees[0][0] if degrees else None, words), word)]
    return [(colour(dim, GRIDS), f"{WORDS[dim][GRIDS]}{degree}") for dim, degree in degrees]


def _bars(ran: ScoredStep, layout: Layout) -> Iterator[Markup]:
    """Yield the bars of each layer's row; transfers that may run beside computation are half as high."""
    beside = bool(ran.score.overlapped_s)
    for (layer, kind), spans in _spans(ran, layout).items():
        low = beside and kind == "communication"
        place = {"y": TOP + ROW * layer + (9 if low else 3), "height": 6 if low else 12}
        for start, end in spans:
            yield tag("rect", class_=kind, x=f"{start:.1f}", width=f"{max(0.7, end - start):.1f}", **place)


def _spans(ran: ScoredStep, layout: Layout) -> dict[tuple[int, str], list[tuple[float, float]]]:
    """Return where each kind of a layer's tasks starts and ends; tasks that touch are one."""
    found: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for task, layer, begins in zip(ran.timeline.tasks, ran.step.layers, ran.timeline.starts, strict=True):
        start, end = (_at(layout, time, ran.timeline.makespan) for time in (begins, begins + task.seconds))
        own = found.setdefault((layer, task.kind), [])
        if own and start - own[-1][1] < TOUCHING:
            start, end = own[-1][0], max(end, own.pop()[1])
        own.append((start, end))
    return found


def _legend(ran: ScoredStep, layout: Layout, top: float) -> list[tuple[float, Markup]]:
    """Return a mark and a word, with where they stand, for every dim that is cut and every kind of time."""
    used = {kind for cells in _cells(ran.plan) for parts in cells for kind, _ in parts}
    marks = [(kind, DIM_TEXTS[None if kind == "whole" else kind]) for kind in DIMS if kind in used]
    marks += [(kind, "receives" if kind == "communication" else kind) for kind in TIMES if kind != "update"]
    found, x, y = [], float(MARGIN), top
    for kind, words in marks:
        wide = 18 + TEXT_LETTER * len(words)
        if x + wide > layout.end:
            x, y = float(MARGIN), y + ROW
        box = tag("rect", class_=kind, x=f"{x:g}", y=y - 10.5, width=12, height=12, rx=2)
        found.append((y, markup(box, "\n", tag("text", words, x=f"{x + 18:g}", y=y))))
        x = round(x + wide + 18, 1)
    return found
