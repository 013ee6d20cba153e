"""One step: its timeline with the critical path, and its longest tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.reports.page.blocks import cell, details, head, name, note, number, region, row, table
from hypar.reports.page.blocks import section as section_of
from hypar.reports.page.html import Markup, tag
from hypar.reports.page.numbers import num_bytes, percent, seconds
from hypar.reports.page.svg import Frame, label, line, pictures, rect, ticks
from hypar.reports.sections.timeline import KINDS, Block, Line, lines_of

if TYPE_CHECKING:
    from hypar.reports.page.html import Content
    from hypar.studies.report.gather import Gathered, StepUse
    from hypar.studies.report.tasks import StepTask

FRAMES = (Frame(1016, 128, 850, 12, narrow=False), Frame(360, 84, 354, 10.5, narrow=True))
TOP, HEIGHT = 24, 16
MIXED = 13
"""Height of a row's line for one of several groups."""

MOST_TITLES = 200
"""The largest number of boxes with titles in a step of over ``MANY`` tasks."""

MANY = 1000
LONGEST = 10

ON = {"forward": "on-forward"}
"""Classes of a text on a box of a kind, if not the ground's colour."""


def section(found: Gathered) -> Markup:
    """Return the timeline."""
    step = found.step
    title = "One step, stage by stage" if step is not None and step.stages else "One step, layer by layer"
    if step is None:
        return section_of("step", "One step", note("Not known: the plan names no machine."))
    return section_of("step", title, note(_about(step)), _legend(step), _picture(found, step), _longest(step))


def _about(step: StepUse) -> str:
    """Say what the boxes mean."""
    critical = sum(task.critical for task in step.tasks)
    if critical == len(step.tasks):
        return f"All {critical} tasks lie on the critical path: nothing runs beside anything else."
    lanes = ""
    if step.stages is None and len(step.lanes) > 1:
        lanes = f" A row has a line for each group: {', '.join(step.lanes)}, from the top."
    inside = (
        " A box is the work on a microbatch, whose number it has, with what the stage receives."
        if step.stages
        else ""
    )
    return f"{critical} of {len(step.tasks)} tasks lie on the critical path: the high boxes. The low ones run beside it.{lanes}{inside}"


def _legend(step: StepUse) -> Markup:
    kinds = [kind for kind in KINDS if any(task.kind == kind and task.seconds for task in step.tasks)]
    items = (
        tag("li", tag("span", class_=f"sw {kind}"), "receives" if kind == "communication" else kind)
        for kind in kinds
    )
    return tag("ul", *items, class_="legend")


def _picture(found: Gathered, step: StepUse) -> Markup:
    whole = step.score.time_s or 1.0
    mixed = step.stages is None and len(step.lanes) > 1
    high = (MIXED * len(step.lanes) if mixed else 2 * HEIGHT if step.stages else HEIGHT) + 3
    titled = _titled(step)

    def draw(frame: Frame) -> tuple[list[Markup], float]:
        rows = lines_of(found, step, whole / (frame.right - frame.left) / 4)
        bottom = TOP + high * len(rows)
        marks = _axis(frame, whole, bottom)
        for at, each in enumerate(rows):
            y = TOP + high * at
            marks += _row(frame, each, (y, high - 3), whole, frozenset() if frame.narrow else titled)
        if not frame.narrow:
            marks.append(label((frame.right + 74, 14), "computes", frame.size, anchor="end", kind="mt"))
            marks.append(label((frame.width, 14), "receives", frame.size, anchor="end", kind="mt"))
        return marks, bottom + 22

    longest = max(step.tasks, key=lambda task: task.seconds, default=None)
    most = f" The longest task is {longest.name}, {seconds(longest.seconds)}." if longest else ""
    desc = f"A step of {seconds(step.score.time_s)} from left to right, a row for each part.{most}"
    return pictures(draw, FRAMES, "Timeline of a step", desc)


def _titled(step: StepUse) -> frozenset[int]:
    """Return the tasks whose boxes have titles."""
    tasks = sorted(step.tasks, key=lambda task: -task.seconds)
    return frozenset(map(id, tasks if len(tasks) <= MANY else tasks[:MOST_TITLES]))


def _axis(frame: Frame, whole: float, bottom: float) -> list[Markup]:
    marks = []
    for tick in ticks(whole, 3 if frame.narrow else 5):
        x = frame.at(tick / whole)
        anchor = "end" if x > frame.right - 16 else "middle"
        marks.append(line((x, TOP - 4), (x, bottom)))
        marks.append(label((x, bottom + 15), seconds(tick), frame.size, anchor=anchor, kind="mt"))
    return marks


def _row(
    frame: Frame, each: Line, place: tuple[float, float], whole: float, titled: frozenset[int]
) -> list[Markup]:
    """Return the name, the boxes and the sums of a row."""
    y, high = place
    middle = y + high / 2 + 4
    marks = [
        label(
            (frame.left - 8, middle),
            _cut(each.label, 13 if frame.narrow else 22),
            frame.size,
            anchor="end",
            kind="mono",
        )
    ]
    lane = high / len(each.lanes)
    for at, blocks in enumerate(each.lanes):
        for block in blocks:
            marks += _box(frame, block, (y + lane * at, lane), whole, titled)
    if not frame.narrow:
        marks.append(label((frame.right + 74, middle), seconds(each.computing_s), frame.size, anchor="end"))
        marks.append(label((frame.width, middle), seconds(each.receiving_s), frame.size, anchor="end"))
    return marks


def _cut(text: str, most: int) -> str:
    """Return a name that fits, its middle left out."""
    return text if len(text) <= most else f"{text[: most // 2 - 1]}\u2026{text[-most // 2 :]}"


def _box(
    frame: Frame, block: Block, place: tuple[float, float], whole: float, titled: frozenset[int]
) -> list[Markup]:
    """Return the parts of a box, one below the other; off the critical path it has two fifths of the height."""
    y, high = place
    tall = high if block.critical else 0.4 * high
    y += 0.0 if block.critical else 0.3 * high
    left, right = frame.at(block.start_s / whole), frame.at(block.end_s / whole)
    width, total = max(0.3, right - left), sum(block.spent.values())
    title = _title(block) if any(id(task) in titled for task in block.tasks) else None
    marks = []
    for kind, spent in block.spent.items():
        part = tall * spent / total
        marks.append(rect((left, y, width, part), kind, title))
        y += part
    first = next(iter(block.spent), "")
    if block.label and width > 13 and block.critical:
        marks.append(
            label(
                (left + width / 2, y - tall / 2 + 4),
                block.label,
                11,
                anchor="middle",
                kind=ON.get(first, "on"),
            )
        )
    return marks


def _title(block: Block) -> str:
    first, last = block.tasks[0], block.tasks[-1]
    named = first.name if first is last else f"{first.name} to {last.name}"
    return f"{named}: {seconds(block.end_s - block.start_s)} from {seconds(block.start_s)}"


def _longest(step: StepUse) -> Markup:
    tasks = sorted(step.tasks, key=lambda task: (-task.seconds, task.start_s))[:LONGEST]
    heads = [
        head("task"), head("on"), head("starts", "r"), head("takes", "r"), head("of the step", "r"),
        head("receives", "r"), head("critical"),
    ]  # fmt: skip
    body = (_task(task, step.score.time_s) for task in tasks)
    summary = f"The {len(tasks)} longest of {len(step.tasks)} tasks"
    return details(summary, region("Longest tasks", table(heads, body)))


def _task(task: StepTask, whole: float) -> Markup:
    on: Content = task.resource
    return row(
        name(task.name),
        cell(on),
        number(seconds(task.start_s)),
        number(seconds(task.seconds)),
        number(percent(task.seconds / whole) if whole else ""),
        number(num_bytes(task.num_bytes)),
        cell("yes" if task.critical else "no"),
    )
