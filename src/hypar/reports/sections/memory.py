"""The memory of a device: its share of the capacity, and its course over the step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.plan.stages import stage_of
from hypar.reports.formats.base import memory_line
from hypar.reports.page.blocks import bars, details, head, name, note, number, region, row, table, track, wide
from hypar.reports.page.blocks import section as section_of
from hypar.reports.page.html import Markup, tag
from hypar.reports.page.numbers import DASH, num_bytes, percent, prose, seconds
from hypar.reports.page.svg import FILLS, Frame, label, line, pictures, rect, ticks

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.studies.report.gather import Gathered, StepUse
    from hypar.studies.report.memory import MemoryUse

FRAMES = (Frame(1016, 128, 850, 12, narrow=False), Frame(360, 60, 354, 10.5, narrow=True))
TOP, HEIGHT = 24, 130


def section(found: Gathered) -> Markup:
    """Return the memory of a device."""
    step = found.step
    if step is None:
        return section_of("memory", "Memory", note("Not known: the plan names no machine."))
    if step.stages is not None:
        return section_of(
            "memory",
            "Memory",
            note("The most that a device of each stage holds."),
            _stages(step),
            _items(step),
        )
    return section_of(
        "memory",
        "Memory over the step",
        note(
            "Same time axis as above. Weights, gradients, optimizer state and transfer buffers (dark) are held all "
            "along. On top of it are activations, kept until the backward phase has used them, and the errors that it sends back."
        ),
        *(_course(memory, step) for memory in step.memory),
        _items(step),
    )


def _course(memory: MemoryUse, step: StepUse) -> Markup:
    """Return the gauge and the chart of a group of devices."""
    title = [tag("h3", memory.group)] if len(step.memory) > 1 else []
    return tag("div", *title, _gauge(memory), _chart(memory, step.score.time_s), class_="keep")


def _gauge(memory: MemoryUse) -> Markup:
    if not memory.capacity_bytes:
        return note(
            f"Peak {num_bytes(memory.peak_bytes)}; capacity not known: the machine\u2019s file gives none."
        )
    share = memory.peak_bytes / memory.capacity_bytes
    fits = "" if share <= 1 else ": does not fit"
    text = (
        f"peak {num_bytes(memory.peak_bytes)}, {percent(share)} of {num_bytes(memory.capacity_bytes)}{fits}"
    )
    return tag("div", track(share), tag("span", text, class_="n"), class_="gauge")


def _chart(memory: MemoryUse, time_s: float) -> Markup:
    """Return the bytes over the step as an area; the axis ends at the peak, or at the capacity if that is lower."""
    base, whole = math.fsum(memory.always.values()), time_s or 1.0
    most = memory.peak_bytes or 1.0
    over = memory.capacity_bytes if memory.capacity_bytes and memory.capacity_bytes < most else None
    top = max(memory.course, key=lambda point: point[1], default=(0.0, 0.0))[0]

    def draw(frame: Frame) -> tuple[list[Markup], float]:
        bottom = TOP + HEIGHT

        def height(number: float) -> float:
            return bottom - HEIGHT * number / most

        marks = []
        for tick in ticks(most, 3):
            marks.append(line((frame.left, height(tick)), (frame.right, height(tick))))
            marks.append(
                label(
                    (frame.left - 8, height(tick) + 4), num_bytes(tick), frame.size, anchor="end", kind="mt"
                )
            )
        marks.append(_area(memory, frame, whole, height, base))
        marks.append(
            rect((frame.left, height(base), frame.right - frame.left, bottom - height(base)), "gradient")
        )
        for tick in ticks(whole, 3 if frame.narrow else 5):
            x = frame.at(tick / whole)
            anchor = "end" if x > frame.right - 16 else "middle"
            marks.append(label((x, bottom + 16), seconds(tick), frame.size, anchor=anchor, kind="mt"))
        x = min(max(frame.at(top / whole), frame.left + 60), frame.right - 60)
        marks.append(label((x, 15), f"peak {num_bytes(most)}", frame.size, anchor="middle"))
        if over is not None:
            marks.append(line((frame.left, height(over)), (frame.right, height(over)), "rl"))
            marks.append(label((frame.left + 4, height(over) - 4), f"capacity {num_bytes(over)}", frame.size))
        if not frame.narrow:
            marks.append(label((frame.right + 10, TOP + 26), "activations", frame.size, kind="mt"))
            marks.append(
                label((frame.right + 10, TOP + 41), f"up to {num_bytes(most - base)}", frame.size, kind="mt")
            )
            marks.append(label((frame.right + 10, bottom - 18), "held all along", frame.size, kind="mt"))
            marks.append(label((frame.right + 10, bottom - 3), num_bytes(base), frame.size, kind="mt"))
        return marks, bottom + 22

    desc = f"{num_bytes(base)} are held all along; activations and errors rise to {num_bytes(most - base)} at {seconds(top)}."
    return pictures(draw, FRAMES, f"Memory of a device of {memory.group} over a step", desc)


def _area(memory: MemoryUse, frame: Frame, whole: float, at: Callable[[float], float], base: float) -> Markup:
    """Return the area of activations and errors, in steps."""
    path, y = [f"M{frame.left:.1f} {at(base):.1f}"], at(base)
    for time, kept in memory.course:
        x, new = frame.at(min(1.0, time / whole)), at(base + kept)
        if abs(new - y) >= 0.05 or kept == 0:
            path.append(f"H{x:.1f}V{new:.1f}")
            y = new
    path.append(f"H{frame.right:.1f}V{at(base):.1f}Z")
    return tag("path", class_="forward", fill=FILLS["forward"], d="".join(path))


def _stages(step: StepUse) -> Markup:
    """Return a row for each stage."""
    groups = step.score.groups or []
    most = max((group.memory_bytes for group in groups), default=0.0) or 1.0
    stages = step.stages.stages if step.stages else []
    heads = [
        head("stage"),
        head("", "hide-s"),
        head("memory", "r"),
        head("of the capacity", "r"),
        head("microbatches in flight", "r"),
    ]
    body = (
        row(
            name(group.group),
            wide(bars([(group.memory_bytes / most, "backward")])),
            number(num_bytes(group.memory_bytes)),
            number(_of(group.memory_bytes, group.capacity_bytes)),
            number(f"{stages[stage_of(group.group)].in_flight}"),
        )
        for group in groups
    )
    return region("Memory by stage", table(heads, body, class_="full"))


def _of(held: float, capacity: float | None) -> str:
    return f"{percent(held / capacity)} of {num_bytes(capacity)}" if capacity else DASH


def _items(step: StepUse) -> Markup:
    """Return the items of the fullest device."""
    score = step.score
    body = (row(name(item, mono=False), number(num_bytes(held))) for item, held in score.memory.items())
    foot = [row(name("together", mono=False), number(tag("b", num_bytes(score.memory_bytes))))]
    about = note(f"{prose(memory_line(score))}; optimizer {score.optimizer}.")
    return details("What it consists of", about, table([head("item"), head("bytes", "r")], body, foot))
