"""The levels of the machine: its groups of devices as boxes, and the bytes that are received between them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from hypar.reports.page.numbers import num_bytes
from hypar.reports.page.svg import Frame, label, pictures, rect

if TYPE_CHECKING:
    from hypar.plan.plan import Plan
    from hypar.reports.page.html import Markup
    from hypar.studies.report.gather import StepUse

FRAMES = (Frame(760, 64, 394, 12, narrow=False), Frame(400, 50, 200, 12, narrow=True))
ROW = 25
MOST_BOXES = 64
"""The largest number of groups that are drawn one by one."""


class _Shape(NamedTuple):
    """The groups of a level: their number, and their names where they have some."""

    number: int
    names: tuple[str, ...] = ()


def levels_picture(plan: Plan, step: StepUse) -> Markup:
    """Return the machine's levels with the bytes received at each."""
    shapes = _shapes(plan)
    most = max((level.num_bytes for level in step.levels), default=0.0) or 1.0
    texts = "; ".join(f"{level.level} {num_bytes(level.num_bytes)}" for level in step.levels)

    def draw(frame: Frame) -> tuple[list[Markup], float]:
        end = frame.right + (36 if not frame.narrow else 20)
        room = frame.width - end - 70
        marks = [
            label((frame.left, 14), "groups of devices", frame.size, kind="mt"),
            label((end, 14), "bytes received", frame.size, kind="mt"),
        ]
        for at, level in enumerate(step.levels):
            y = 26 + ROW * at
            marks.append(label((frame.left - 10, y + 14), level.level, frame.size, anchor="end"))
            marks += _boxes(frame, shapes.get(level.level, _Shape(1)), y)
            width = room * level.num_bytes / most
            marks.append(rect((end, y + 3, max(1.0, width), 13), "communication"))
            marks.append(label((end + width + 7, y + 14), num_bytes(level.num_bytes), frame.size))
        return marks, 30 + ROW * len(step.levels)

    return pictures(draw, FRAMES, "Bytes received at each level of the machine", f"Bytes in a step: {texts}.")


def _shapes(plan: Plan) -> dict[str, _Shape]:
    """Return the groups that each level makes."""
    stages = 1 if plan.stages is None else len(plan.stages.stages)
    found = {"stages": _Shape(stages, tuple(f"stage {number + 1}" for number in range(stages)))}
    for group in plan.groups:
        above = 1
        for split, _ in group.above:
            sides = tuple(side.group for side in split.sides or ())
            found.setdefault(f"H{split.level + 1}", _Shape(len(sides), sides))
        for split in group.splits:
            above *= split.ways
            level = f"H{split.level + 1}"
            before = found[level].number if level in found else 0
            found[level] = _Shape(before + stages * above)
    return found


def _boxes(frame: Frame, shape: _Shape, y: float) -> list[Markup]:
    """Return the boxes of a level."""
    whole = frame.right - frame.left
    if shape.number > MOST_BOXES or whole / shape.number < 3.5:
        marks = [rect((frame.left, y, whole, 19), "box", radius=2)]
        return [
            *marks,
            label(
                (frame.left + whole / 2, y + 14),
                f"{shape.number} groups",
                frame.size,
                anchor="middle",
                kind="mt",
            ),
        ]
    wide = whole / shape.number
    marks = [
        rect((frame.left + wide * at + 0.75, y, wide - 1.5, 19), "box", radius=min(2.0, math.ceil(wide / 8)))
        for at in range(shape.number)
    ]
    fits = wide > 7 * max((len(name) for name in shape.names), default=0)
    if fits:
        marks += [
            label((frame.left + wide * (at + 0.5), y + 14), name, frame.size - 1, anchor="middle", kind="mt")
            for at, name in enumerate(shape.names)
        ]
    return marks
